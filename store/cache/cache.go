// Package cache provides a store in front of another one, such as a web server or an SFTP server.
// It keeps data that clients have read in a local directory of limited size.
//
//	c, err := cache.Open(cache.Config{Dir: "/var/cache/haul", Size: 20 << 30})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	files := c.Store("https://mirror.example/boot/", source)
//
// One Cache can serve several sources. Readers that need the same bytes at the same time share one
// fetch, and get each byte as soon as it arrives. [Cache.Store] documents what the store
// guarantees, and [Config] the limits. The package example reads a file twice, while it is fetched
// only once.
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

// These are the defaults and the minimums of [Config].
const (
	DefaultFresh  = 10 * time.Second
	defaultAbsent = 5 * time.Second
	DefaultMemory = 64 << 20

	// MinSize is the smallest Config.Size.
	MinSize   = 64 << 20
	minMemory = 8 << 20
)

// A Config says where a [Cache] stores its blocks, and for how long the cache may use information
// about files without asking the source again.
type Config struct {
	// Dir is the directory of the cache. Open creates it if it is missing; its parent must exist.
	// Open refuses a directory that is not empty and is not a cache.
	Dir string

	// Size is the most bytes that the directory may use on the disk, including blocks that are
	// being stored. It must be at least MinSize.
	Size int64

	// Fresh is how long the cache uses information about a file before it asks the source whether
	// the file has changed. 0 means DefaultFresh. With a negative value, the cache asks the source
	// at each Open.
	Fresh time.Duration

	// Stale is how long the cache continues to use information about a file after Fresh is over, if
	// the source cannot be reached. With 0, it does not.
	Stale time.Duration

	// Absent is how long the cache remembers that a name does not exist. 0 means 5 s. With a
	// negative value, the cache does not remember it.
	Absent time.Duration

	// Memory is the most bytes of memory for blocks that are being fetched, or that could not be
	// stored. 0 means DefaultMemory. The minimum is 8 MiB.
	Memory int64

	// Wait is for a server that takes over from another process, which may still use the directory.
	// With Wait, Open does not wait for that process. Until the other process exits or calls
	// [Cache.Release], the cache neither reads nor writes the directory, and fetches everything
	// from the sources. Without Wait, Open fails with ErrInUse.
	Wait bool

	// Log receives warnings, at most one of each kind every ten seconds. nil means that nothing is
	// logged.
	Log *slog.Logger
}

// Stats holds counts since [Open], and the current state.
type Stats struct {
	// Hits and Misses count how many times a reader begins to read a block. That is a hit if the
	// block is stored or in memory, otherwise a miss.
	Hits, Misses uint64

	BytesServed  uint64 // bytes that readers got
	BytesFetched uint64 // bytes that the cache read from sources

	Asks         uint64 // requests to open or describe a file at a source
	Fetches      uint64 // fetches of blocks that have begun
	FetchErrors  uint64 // fetches that failed while a reader still waited for them
	SourceErrors uint64 // requests counted in Asks that failed, except for names that do not exist
	Stale        uint64 // files opened or described from the cache because the source could not be asked

	Corrupt    uint64 // blocks with a wrong checksum or size
	DiskErrors uint64 // failures to read or write the directory
	Unstored   uint64 // blocks that were not stored, for lack of room or because of a disk error
	Evictions  uint64 // blocks removed to make room

	Size     int64         // value of the setting Config.Size
	Held     int64         // bytes of the directory that are used, or reserved for blocks
	Memory   int64         // bytes of blocks in memory
	Objects  int           // versions of files that have stored blocks or readers, or that a name leads to
	Blocks   int           // number of blocks in the directory
	Fetching int           // number of blocks that are being fetched
	Oldest   time.Duration // time since the last use of the block that is the next to be removed
	Writing  bool          // this process has locked the directory
}

// waitEvery is the interval at which a waiting cache tries to lock a directory that another process
// has locked.
const waitEvery = 250 * time.Millisecond

// ErrInUse means that another process holds the directory of a cache.
var ErrInUse = errors.New("another process uses this cache: give each server a directory of its own")

// A Cache stores blocks of files in a directory. Any goroutine may call its methods.
type Cache struct {
	*state
	fronts []*front // one for each call of Store; guarded by state.mu
}

// Open opens the cache in cfg.Dir, and locks it for this process. Complete blocks of earlier
// processes are used again, and incomplete ones are removed.
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

// complete returns cfg with its defaults filled in, or an error if a setting is invalid.
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

// begin locks and loads the directory. If another process has locked it, and Config.Wait is set,
// begin starts to wait in the background.
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

// takeOver waits until the other process releases the directory, and then loads it.
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

// Store returns a store that caches source. location identifies the source, for example by its URL
// without a password; if what the server returns depends on a configuration, location must include
// that. Another process that uses the same location finds the cached data again. location appears
// in log lines.
//
// The result is a [store.Tree] if source is a tree. Otherwise its [store.Capabilities] include
// listing and removing if those of source do. Files are [store.TryReader]s and [store.Versioned],
// unless they cannot be cached. A file cannot be cached if its size is unknown, if nothing
// distinguishes its versions, if it has changed just now, or while it is being written in place.
// The cache passes uploads and other changes on to source. Callers that open the file through this
// store then see the change at once.
//
// A change that is made in another way becomes visible after at most [Config.Fresh]. The same
// applies to a change through another name of the file, such as a link. If a file is replaced, its
// readers get either the content that it had when they opened it, or an error, but never a mixture.
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

// Release unlocks the directory for a successor that waits for it. Readers can continue with the
// files that they have open, but no more blocks are stored. A second Release does nothing.
func (c *Cache) Release() error {
	c.storing.Lock() // wait until the blocks that are being stored are complete
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

// Close releases the directory and cancels all fetches. Reading a file that is still open fails
// afterwards.
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

// Stats returns the current counts and state.
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
