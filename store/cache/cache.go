// Package cache is a store in front of another one, such as a web server or an SFTP
// server. It keeps what was read in a directory of this machine, up to a size.
//
//	c, err := cache.Open(cache.Config{Dir: "/var/cache/haul", Size: 20 << 30})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	files := c.Store("https://mirror.example/boot/", source)
//
// One Cache serves several sources. All readers that want the same bytes at once share one
// fetch, and get each byte as it comes. See [Cache.Store] for what the store promises, and
// [Config] for the bounds. The example of the package reads a file twice, and fetches it once.
//
// # Stability
//
// Before version 1, a release may change names of this package, and the changelog says so.
// Later versions read the directory; an older one may discard what a newer one has written.
// The page https://github.com/haul-project/haul/blob/main/docs/versions.md has the whole promise.
package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/haul-project/haul/store"
)

// The defaults of [Config], and the least it takes.
const (
	DefaultFresh  = 10 * time.Second
	defaultAbsent = 5 * time.Second
	DefaultMemory = 64 << 20

	// MinSize is the smallest Config.Size.
	MinSize   = 64 << 20
	minMemory = 8 << 20
)

// Config says where a [Cache] keeps its blocks, and how long it believes them.
type Config struct {
	// Dir is the directory. It is made if it is missing, in a directory that exists. One
	// with anything in it that is no cache is refused.
	Dir string

	// Size is the most bytes that the directory takes on the disk at any moment, with the
	// blocks that are being stored. At least MinSize.
	Size int64

	// Fresh is how long the cache answers for a file without asking the source whether it
	// has changed. 0 means DefaultFresh; below 0 the source is asked at each Open.
	Fresh time.Duration

	// Stale is for how long after that the cache answers for a file while the source
	// cannot be reached. 0 means not at all.
	Stale time.Duration

	// Absent is for how long the cache remembers that a name does not exist. 0 means
	// 5 s; below 0 it does not.
	Absent time.Duration

	// Memory is the most bytes of blocks that are being fetched, or that could not be
	// stored. 0 means DefaultMemory; the least is 8 MiB.
	Memory int64

	// Wait is for a server that takes over from another one, which may still hold the
	// directory. Open then succeeds at once: until the other process calls
	// [Cache.Release], or ends, nothing is read from the directory or written to it, and
	// all is fetched. Without Wait, Open fails with ErrInUse.
	Wait bool

	// Log gets a line for each kind of trouble, at most one in ten seconds. nil: no log.
	Log *slog.Logger
}

// Stats are counters since [Open], and the state now.
type Stats struct {
	// A reader that comes to a block counts once: as a hit if the block was there, in the
	// directory or in memory; else as a miss.
	Hits, Misses uint64

	BytesServed  uint64 // bytes that readers got
	BytesFetched uint64 // bytes that came from sources

	Asks         uint64 // times that a source was asked to open or to describe a file
	Fetches      uint64 // blocks whose fetch has begun
	FetchErrors  uint64 // fetches that have failed, but for those that nobody waited for any more
	SourceErrors uint64 // asks that have failed, but for names that do not exist
	Stale        uint64 // times that a file was opened or described although the source could not be asked

	Corrupt    uint64 // blocks whose checksum was wrong, or whose size was
	DiskErrors uint64 // times that the directory could not be read or written
	Unstored   uint64 // blocks that were served and not stored, for want of room or because of the disk
	Evictions  uint64 // blocks removed to make room

	Size     int64         // Config.Size
	Held     int64         // bytes of the directory, with room set aside for blocks to store
	Memory   int64         // bytes of blocks in memory
	Objects  int           // versions of files that have blocks, or that a name leads to
	Blocks   int           // in the directory
	Fetching int           // blocks being fetched
	Oldest   time.Duration // since the last use of the block that goes next
	Writing  bool          // this process holds the directory
}

// waitEvery is how often Open tries to lock a directory that another process holds.
const waitEvery = 250 * time.Millisecond

// ErrInUse says that another process holds the directory of a cache.
var ErrInUse = errors.New("another process uses this cache: give each server a directory of its own")

// A Cache keeps blocks of files in a directory. Any goroutine may call its methods.
type Cache struct {
	*state
	fronts []*front // state.mu: one for each call of Store
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
	c := &Cache{state: newState(cfg, d)}
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
	pick(&cfg.Absent, defaultAbsent)
	if cfg.Memory == 0 {
		cfg.Memory = DefaultMemory
	}
	switch {
	case cfg.Dir == "":
		return cfg, fmt.Errorf("cache: %w: no directory", fs.ErrInvalid)
	case cfg.Size < MinSize:
		return cfg, fmt.Errorf("cache in %s: %w: a size of %d bytes is less than %d", cfg.Dir, fs.ErrInvalid, cfg.Size, MinSize)
	case cfg.Memory < minMemory:
		return cfg, fmt.Errorf("cache in %s: %w: memory of %d bytes is less than %d", cfg.Dir, fs.ErrInvalid, cfg.Memory, minMemory)
	case cfg.Stale < 0:
		return cfg, fmt.Errorf("cache in %s: %w: it cannot be stale for less than no time", cfg.Dir, fs.ErrInvalid)
	}
	return cfg, nil
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
	up := &upstream{location: location, source: source, life: c.ctx, asks: &c.count.asks, times: &c.times}
	s := &front{c: c.state, upstream: up, names: map[string]*entry{}}
	c.mu.Lock()
	c.fronts = append(c.fronts, s)
	c.upstreams++
	s.leadToFound()
	c.mu.Unlock()
	if tree, ok := source.(store.Tree); ok {
		return treeFront{s, tree}
	}
	return s
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

// Stats returns the counters.
func (c *Cache) Stats() Stats {
	n := &c.count
	s := Stats{
		Hits: n.hits.Load(), Misses: n.misses.Load(), BytesServed: n.bytesServed.Load(), BytesFetched: n.bytesFetched.Load(),
		Asks: n.asks.Load(), Fetches: n.fetches.Load(), FetchErrors: n.fetchErrors.Load(), SourceErrors: n.sourceErrors.Load(), Stale: n.stale.Load(),
		Corrupt: n.corrupt.Load(), DiskErrors: n.diskErrors.Load(), Unstored: n.unstored.Load(), Evictions: n.evictions.Load(),
		Size: c.cfg.Size,
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Held, s.Memory, s.Fetching, s.Writing = c.held, c.memory, c.running, c.writing
	s.Objects, s.Blocks = len(c.objects), c.blocks.Len()
	if last := c.blocks.Back(); last != nil {
		s.Oldest = max(0, c.now().Sub(last.Value.(*block).used))
	}
	return s
}
