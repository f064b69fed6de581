package source

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
	"github.com/haul-project/haul/internal/linequeue"
	"github.com/haul-project/haul/internal/ownfile"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/cache"
)

// Caching says how data that was read from upstreams is kept on disk.
type Caching struct {
	Dir  string // the directory of the cache; "" means that there is no cache
	Size int64  // the maximum size of the cache, in bytes
	// Fresh is how long cached data is used without asking the upstream; 0 means that the upstream
	// is asked each time.
	Fresh time.Duration
	Stale time.Duration // how much longer cached data is used while the upstream cannot be reached
}

// Check returns an error if the settings are wrong. remote says whether there is an upstream to
// cache.
func (c Caching) Check(remote bool) error {
	const dir, size, fresh, stale = failure.Flag("cache"), failure.Flag("cache-size"), failure.Flag("cache-fresh"), failure.Flag("cache-stale")
	switch {
	case c.Dir == "" && c.Size != 0:
		return failure.Mistake(size, "%s goes with %s DIR", size, dir)
	case c.Dir == "" && c.Stale != 0:
		return failure.Mistake(stale, "%s goes with %s DIR", stale, dir)
	case c.Fresh < 0:
		return failure.Mistake(fresh, "%s %v: must not be below 0", fresh, c.Fresh)
	case c.Stale < 0:
		return failure.Mistake(stale, "%s %v: must not be below 0", stale, c.Stale)
	case c.Dir != "" && !remote:
		return failure.Mistake(dir, "%s is for sources on other machines, such as https://HOST/DIR/, and none is served; directories need none", dir)
	case c.Dir != "" && c.Size == 0:
		return failure.Mistake(size, "%s goes with %s BYTES, such as 20GB, of at least %d MiB", dir, size, cache.MinSize>>20)
	case c.Dir != "" && c.Size < cache.MinSize:
		return failure.Mistake(size, "%s %d: must be at least %d MiB, which is %d bytes", size, c.Size, cache.MinSize>>20, cache.MinSize)
	}
	return nil
}

// A Set holds the upstreams of a server, each opened once for all protocols, and the cache in front
// of them. The zero value has no upstreams.
type Set struct {
	// Account is the user whose keys and passwords are used. By default that is the user that is
	// passed to Open as `become`.
	Account *user.User

	// Patience is how long a call may take; 0 means 10 s.
	Patience time.Duration

	Redirects []string // servers to which web servers may redirect: see [CheckRedirects]

	all   map[string]*Source // the upstreams, by their URLs
	cache *cache.Cache       // the cache in front of the upstreams; nil means that there is no cache
	lines *linequeue.Log
}

// Open opens those names that are URLs, and ignores the others. become is the user that the process
// will become; nil means that the user does not change. takesOver says that another process may
// hold the cache until it calls [Set.Release]. The caller closes the set, even after an error.
func (s *Set) Open(ctx context.Context, names []string, c Caching, become *privilege.User, takesOver bool, log *slog.Logger) error {
	s.all = map[string]*Source{}
	s.lines = linequeue.NewLog(log)
	cfg := Config{Say: s.lines.Say, Account: cmp.Or(s.Account, accountOf(become)), wait: s.Patience, Redirects: s.Redirects}
	for _, name := range names {
		if !IsRemote(name) || s.all[name] != nil {
			continue
		}
		if s.cache == nil && c.Dir != "" {
			if err := s.openCache(c, become, takesOver, log); err != nil {
				return &failure.Error{Kind: failure.Local, Setting: "cache", Err: err}
			}
		}
		cfg.Cache = s.cache
		one, err := Open(ctx, name, cfg)
		if err != nil {
			return err
		}
		s.all[name] = one
	}
	return nil
}

func (s *Set) openCache(c Caching, become *privilege.User, takesOver bool, log *slog.Logger) (err error) {
	if c.Fresh == 0 {
		c.Fresh = -1
	}
	if become == nil { // with another user, Give refuses the directories of third users
		if err := ownfile.Check(c.Dir); err != nil {
			return failure.Text("%s: %w", failure.Flag("cache"), err)
		}
	}
	s.cache, err = cache.Open(cache.Config{Dir: c.Dir, Size: c.Size, Fresh: c.Fresh, Stale: c.Stale, Wait: takesOver, Log: log})
	err = adviseCache(err)
	if err != nil || become == nil {
		return err
	}
	if err := privilege.Give(c.Dir, *become); err != nil {
		return failure.Text("%s %s: %w", failure.Flag("cache"), c.Dir, err)
	}
	return nil
}

// adviseCache adds advice to an error about the cache's directory.
func adviseCache(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return failure.Text("%w; give %s a directory that the user haul runs as may write, and nobody else", err, failure.Flag("cache"))
	case errors.Is(err, syscall.ENOSPC):
		return failure.Text("%w; make room there, or give %s a directory of another disk", err, failure.Flag("cache"))
	}
	return err
}

// accountOf returns the user whose keys and passwords are used: the user that the process will
// become, or nil for the current user.
func accountOf(become *privilege.User) *user.User {
	if become == nil {
		return nil
	}
	uid := strconv.Itoa(become.UID)
	if u, err := user.LookupId(uid); err == nil {
		return u
	}
	return &user.User{Uid: uid, Gid: strconv.Itoa(become.GID), Username: become.Name, HomeDir: "/nonexistent"}
}

// Tree returns the upstream with this name, or nil if the name is the path of a directory.
func (s *Set) Tree(name string) store.Tree {
	if one := s.all[name]; one != nil {
		return one
	}
	return nil
}

// Needs returns the system resources that the upstreams need.
func (s *Set) Needs() (n Needs) {
	for _, one := range s.all {
		n.Add(one.Needs())
	}
	return n
}

// Probe lists the root of each upstream in the background, so that the log shows whether the
// upstream can be reached.
func (s *Set) Probe(ctx context.Context) {
	for _, one := range s.all {
		go one.Probe(ctx)
	}
}

// Release unlocks the directory of the cache, so that a successor can use it: see [cache.Cache.Release].
func (s *Set) Release() {
	if s.cache != nil {
		_ = s.cache.Release() // ignore the error: the cache itself logs data that it could not write
	}
}

// Close closes the upstreams and the cache.
func (s *Set) Close() {
	for _, one := range s.all {
		one.Close()
	}
	if s.cache != nil {
		_ = s.cache.Close()
	}
	if s.lines != nil {
		s.lines.Close()
	}
}

// RegisterMetrics registers the counters of all upstreams together, and the counters of the cache.
func (s *Set) RegisterMetrics(counts *meter.Registry) {
	if len(s.all) == 0 {
		return
	}
	sum := func(of func(Stats) uint64) func() int64 {
		return func() (n int64) {
			for _, one := range s.all {
				n += int64(of(one.Stats()))
			}
			return n
		}
	}
	for _, c := range []struct {
		name, help string
		of         func(Stats) uint64
	}{
		{"source_calls_total", "Requests to sources on other machines.", func(n Stats) uint64 { return n.Calls }},
		{"source_failures_total", "Requests to sources and reads that failed because of the server or the way to it.", func(n Stats) uint64 { return n.Failures }},
		{"source_repeats_total", "Requests to sources over HTTP and S3 that were sent again: there was no time for them, or a connection was lost.", func(n Stats) uint64 { return n.Again }},
		{"source_connects_total", "Connections to SFTP servers, and clients of others, that were made.", func(n Stats) uint64 { return n.Connects }},
		{"source_read_bytes_total", "Bytes of files read from sources.", func(n Stats) uint64 { return n.Read }},
	} {
		counts.Counter(c.name, c.help, sum(c.of))
	}
	away := sum(func(n Stats) uint64 {
		if n.Away {
			return 1
		}
		return 0
	})
	counts.Gauge("sources_away", "Sources that cannot be reached.", func() float64 { return float64(away()) })
	if s.cache != nil {
		registerCacheMetrics(counts, s.cache)
	}
}

// registerCacheMetrics registers the counters of a cache.
func registerCacheMetrics(counts *meter.Registry, c *cache.Cache) {
	for _, one := range []struct {
		name, help string
		of         func(cache.Stats) uint64
	}{
		{"cache_hits_total", "Blocks that readers found in the cache.", func(n cache.Stats) uint64 { return n.Hits }},
		{"cache_misses_total", "Blocks that readers waited for.", func(n cache.Stats) uint64 { return n.Misses }},
		{"cache_served_bytes_total", "Bytes that readers got through the cache.", func(n cache.Stats) uint64 { return n.BytesServed }},
		{"cache_fetched_bytes_total", "Bytes that the cache got from sources.", func(n cache.Stats) uint64 { return n.BytesFetched }},
		{"cache_fetches_total", "Blocks that the cache has begun to fetch.", func(n cache.Stats) uint64 { return n.Fetches }},
		{"cache_fetch_errors_total", "Fetches of blocks that failed.", func(n cache.Stats) uint64 { return n.FetchErrors }},
		{"cache_source_errors_total", "Times that a source could not say whether a file has changed.", func(n cache.Stats) uint64 { return n.SourceErrors }},
		{"cache_stale_total", "Files served although the source could not be asked.", func(n cache.Stats) uint64 { return n.Stale }},
		{"cache_corrupt_total", "Blocks that were not what had been stored.", func(n cache.Stats) uint64 { return n.Corrupt }},
		{"cache_disk_errors_total", "Times that the cache's directory could not be read or written.", func(n cache.Stats) uint64 { return n.DiskErrors }},
		{"cache_evictions_total", "Blocks removed to make room.", func(n cache.Stats) uint64 { return n.Evictions }},
	} {
		counts.Counter(one.name, one.help, func() int64 { return int64(one.of(c.Stats())) })
	}
	counts.Gauge("cache_bytes", "Bytes of the cache's directory.", func() float64 { return float64(c.Stats().Held) })
	counts.Gauge("cache_oldest_seconds", "Time since the last use of the block that goes next.", func() float64 { return c.Stats().Oldest.Seconds() })
}
