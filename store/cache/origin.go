package cache

import (
	"context"
	"encoding/hex"
	"io/fs"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/store"
)

const (
	maxVersion = 1 << 10 // longest version that is used, in bytes: a server may send an ETag of any length

	// A file that has just changed is not cached, because another change could leave its version
	// the same. The last change must be older than tickTime, which is some ticks of the system's
	// clock, if files have identities. It must be older than secondTime if they have only
	// modification times.
	tickTime   = 50 * time.Millisecond
	secondTime = 2 * time.Second
)

// An upstream is a source: a store whose files are cached.
type upstream struct {
	location string
	source   store.Store
	life     context.Context // ends when the cache is closed
	asks     *atomic.Uint64  // counter of requests to open or describe a file: counters.asks
	times    *times
	running  int // number of fetches from this source that are in progress; guarded by state.mu
}

// versionOf returns a string that distinguishes the versions of a file. f is the open file or its
// description fi. ok is false if nothing distinguishes the versions.
func (s *upstream) versionOf(f any, fi fs.FileInfo) (string, bool) {
	if v, ok := store.As[store.Versioned](f); ok {
		version := v.Version()
		return "v " + version, version != "" && len(version) <= maxVersion
	}
	if i, ok := store.As[store.Identifier](f); ok {
		if id, ok := i.Identity(); ok {
			sum := id.Digest()
			return "i " + hex.EncodeToString(sum[:16]), s.times.settled(id.Changed(), tickTime)
		}
	}
	t := fi.ModTime()
	return "t " + strconv.FormatInt(t.UnixNano(), 10), !t.IsZero() && s.times.settled(t, secondTime)
}

// openSource opens a file of the source. ctx bounds only the call: once open, the file stays open
// until it or the cache is closed. version is "" if the file cannot be cached.
func (s *upstream) openSource(ctx context.Context, name string) (o *origin, version string, err error) {
	s.asks.Add(1)
	own, cancel := context.WithCancel(s.life)
	stop := context.AfterFunc(ctx, cancel)
	f, err := s.source.Open(own, name)
	if err != nil {
		cancel()
		return nil, "", err
	}
	if !stop() {
		cancel()
		_ = f.Close()
		return nil, "", context.Cause(ctx)
	}
	fi, err := f.Stat()
	if err != nil {
		cancel()
		_ = f.Close()
		return nil, "", err
	}
	version, ok := s.versionOf(f, fi)
	if !ok || fi.Size() < 0 || !fi.Mode().IsRegular() || len(identity{s.location, name, version, fi.Size()}.String()) > maxInfo {
		version = ""
	}
	return &origin{file: f, info: fi, cancel: cancel}, version, nil
}

// times provides the current time, and decides whether a file's time can be trusted to change with
// its content.
type times struct {
	now  func() time.Time
	racy bool // only tests set it: assume that no file changes twice within a tick
}

// settled reports whether a file that was last changed at `changed` would get a different time if
// it changed again now. That is so if the change was longer ago than `within`.
func (t *times) settled(changed time.Time, within time.Duration) bool {
	return t.racy || t.now().Sub(changed) > within
}

// An origin is an open file of the source.
type origin struct {
	file   store.File
	info   fs.FileInfo
	at     int64 // offset after the last byte that was read
	cancel context.CancelFunc
	once   sync.Once
}

// close closes the file, and interrupts reads that are waiting.
func (s *origin) close() {
	s.once.Do(func() {
		s.cancel()
		_ = s.file.Close()
	})
}

// A direct is an open file of the source that cannot be cached, so readers read it directly.
type direct struct {
	src  *origin
	stop func() bool
}

// newDirect returns a direct that reads from src. Reads fail after ctx has ended.
func newDirect(ctx context.Context, src *origin) *direct {
	return &direct{src, context.AfterFunc(ctx, src.cancel)}
}

func (d *direct) ReadAt(p []byte, off int64) (int, error) { return d.src.file.ReadAt(p, off) }

func (d *direct) Stat() (fs.FileInfo, error) { return d.src.file.Stat() }

// Location returns the location of the file at the source.
func (d *direct) Location() store.Location { return store.LocationOf(d.src.file) }

func (d *direct) Close() error {
	d.stop()
	defer d.src.cancel()
	return d.src.file.Close()
}
