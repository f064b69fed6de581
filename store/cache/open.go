package cache

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/store"
)

const (
	maxNameLen = 4096 // bytes of a name that is remembered
	waitEvery  = 250 * time.Millisecond
)

var (
	// ErrInUse says that another process holds the directory of a cache.
	ErrInUse = errors.New("another process uses this cache: give each server a directory of its own")

	errNoRoom = errors.New("its size cannot be brought below the bound")
	errSlow   = fmt.Errorf("the source has not answered within %v", staleWait)
)

// A Cache keeps blocks of files in a directory. Any goroutine may call its methods.
type Cache struct {
	cfg      Config
	disk     *disk
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	tasks    sync.WaitGroup // all goroutines
	isClosed atomic.Bool
	noTries  atomic.Bool // the file system cannot say what is in memory
	count    counters
	log      troubles
	now      func() time.Time
	racy     bool // for tests: believe that no file changes twice at one time

	// storing is held to store a block, and alone to give a directory another name, or to
	// give the cache up. It is taken before object.saving, and that before mu.
	storing sync.RWMutex

	mu      sync.Mutex
	room    *sync.Cond         // of mu: there is memory again
	writing bool               // mu: this process holds the directory; see load and Release
	objects map[string]*object // mu: by id
	blocks  *list.List         // mu: *block, those used last first
	open    *list.List         // mu: *block, those with an open file
	kept    *list.List         // mu: keptFetch, those that are kept longest first
	held    int64              // mu: bytes of the directory, and set aside
	memory  int64              // mu: bytes of fetches
	running int                // mu: fetches under way
	fronts  []*front           // mu: of the calls of Store
}

// Open opens the cache in cfg.Dir, and holds that for this process. It uses the blocks
// that earlier processes have left there, and removes those that they did not finish.
func Open(cfg Config) (*Cache, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	d, err := openDisk(cfg.Dir, true)
	if err != nil {
		return nil, err
	}
	c := newCache(cfg, d)
	err = c.begin()
	if err != nil {
		c.cancel()
		d.close()
		return nil, fmt.Errorf("cache in %s: %w", cfg.Dir, err)
	}
	return c, nil
}

// complete returns cfg with its defaults, or an error if it is wrong.
func (cfg Config) complete() (Config, error) {
	pick := func(d *time.Duration, by time.Duration) {
		if *d == 0 {
			*d = by
		}
	}
	pick(&cfg.Fresh, DefaultFresh)
	pick(&cfg.Absent, DefaultAbsent)
	if cfg.Memory == 0 {
		cfg.Memory = DefaultMemory
	}
	switch {
	case cfg.Dir == "":
		return cfg, fmt.Errorf("cache: %w: no directory", fs.ErrInvalid)
	case cfg.Size < MinSize:
		return cfg, fmt.Errorf("cache in %s: %w: a size of %d bytes is less than %d", cfg.Dir, fs.ErrInvalid, cfg.Size, MinSize)
	case cfg.Memory < MinMemory:
		return cfg, fmt.Errorf("cache in %s: %w: memory of %d bytes is less than %d", cfg.Dir, fs.ErrInvalid, cfg.Memory, MinMemory)
	case cfg.Stale < 0:
		return cfg, fmt.Errorf("cache in %s: %w: it cannot be stale for less than no time", cfg.Dir, fs.ErrInvalid)
	}
	return cfg, nil
}

func newCache(cfg Config, d *disk) *Cache {
	c := &Cache{cfg: cfg, disk: d, now: time.Now, objects: map[string]*object{}, blocks: list.New(), open: list.New(), kept: list.New()}
	c.room = sync.NewCond(&c.mu)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// begin takes the directory, or waits for it in the background.
func (c *Cache) begin() error {
	locked, err := c.disk.lock()
	switch {
	case err != nil:
		return err
	case locked:
		return c.load(c.ctx)
	case !c.cfg.Wait:
		return ErrInUse
	}
	c.tasks.Go(c.takeOver)
	return nil
}

// start starts a goroutine, unless the cache is closed. The caller holds mu.
func (c *Cache) start(task func()) {
	if !c.isClosed.Load() {
		c.tasks.Go(task)
	}
}

// takeOver waits until the process before this one gives the directory up.
func (c *Cache) takeOver() {
	ticker := time.NewTicker(waitEvery)
	defer ticker.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-ticker.C:
		}
		locked, err := c.disk.lock()
		if err == nil && locked {
			err = c.load(c.ctx)
		}
		if err != nil && c.ctx.Err() == nil {
			c.count.diskErrors.Add(1)
			c.trouble("the cache cannot be taken over: nothing is stored", err, "dir", c.cfg.Dir)
			return
		}
		if locked {
			return
		}
	}
}

// settled reports whether a file that has changed at t has another time if it changes again.
func (c *Cache) settled(t time.Time, within time.Duration) bool {
	return c.racy || c.now().Sub(t) > within
}

// Store returns source with the cache in front. location says which source it is, such as
// the URL without a password, with the server if that depends on a configuration: what is kept
// for a location is found again by the next process. Lines of the log have it.
//
// The result is a [store.Tree] if source is; otherwise its [store.Capabilities] include listing and
// removing if those of source do. Files are [store.TryReader]s and [store.Versioned], unless they cannot be kept,
// because their size is not known, nothing distinguishes their versions, they have changed
// just now, or they are being written in place. Uploads and other changes pass to source,
// and those who open the file through this store see them at once.
//
// A change that is not made through this store shows after [Config.Fresh] at the latest; so
// does one through another name of the file, such as a link. A reader whose file has been
// replaced reads the content that it had when it was opened, or gets an error, never a mix.
func (c *Cache) Store(location string, source store.Store) store.Store {
	s := &front{c: c, location: location, source: source, names: map[string]*entry{}}
	c.mu.Lock()
	c.fronts = append(c.fronts, s)
	s.leadToFound()
	c.mu.Unlock()
	if tree, ok := source.(store.Tree); ok {
		return treeFront{s, tree}
	}
	return s
}

// check returns an error for a name that there cannot be, or if nothing can be opened.
func (s *front) check(ctx context.Context, op, name string) error {
	err := ctx.Err()
	switch {
	case err != nil:
	case !store.ValidName(name) || len(name) > maxNameLen:
		err = fs.ErrInvalid
	case s.c.isClosed.Load():
		err = fs.ErrClosed
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

// Release gives the directory up, for a successor that waits for it. Readers can
// continue with the files they have open; nothing more is stored. To release again does
// nothing.
func (c *Cache) Release() error {
	c.storing.Lock() // blocks that are being stored come first
	defer c.storing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.writing {
		return nil
	}
	c.writing = false
	c.closeSome()
	return c.disk.unlock()
}

// Close releases the directory and ends all fetches. Files that are open fail then.
func (c *Cache) Close() error {
	if c.isClosed.Swap(true) {
		return nil
	}
	c.cancel()
	c.mu.Lock()
	c.room.Broadcast()
	var open []*origin
	for _, o := range c.objects {
		open = append(open, o.leave()...)
	}
	c.mu.Unlock()
	for _, s := range open {
		s.close()
	}
	c.tasks.Wait()
	err := c.Release()
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.open.Front(); e != nil; {
		b := e.Value.(*block)
		if e = e.Next(); b.refs.Load() == 0 {
			c.closeFile(b)
		}
	}
	c.disk.close()
	return err
}
