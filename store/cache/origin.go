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
	maxVersion = 1 << 10 // bytes of a version that is remembered: a server may send an ETag of any length

	// A file that has changed within the time that its source cannot tell two changes
	// apart is not kept: ticks of a system's clock where the system has identities, or
	// seconds where there are times of modification only.
	tickTime   = 50 * time.Millisecond
	secondTime = 2 * time.Second
)

// An upstream is a store whose files the cache keeps.
type upstream struct {
	location string
	source   store.Store
	life     context.Context // of the cache
	asks     *atomic.Uint64  // of counters
	times    *times
	running  int // state.mu: fetches under way
}

// versionOf returns what distinguishes the version of a file or a description. It reports
// false if nothing does.
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

// openSource opens a file of the source, which stays open whatever becomes of ctx after
// that, until the cache is closed. version is "" if it cannot be kept.
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

// times says what time it is, and whether two versions of a file may have the same time.
type times struct {
	now  func() time.Time
	racy bool // for tests: believe that no file changes twice at one time
}

// settled reports whether a file that has changed at a time has another time if it changes again.
func (t *times) settled(changed time.Time, within time.Duration) bool {
	return t.racy || t.now().Sub(changed) > within
}

// An origin is a file that is open at the source.
type origin struct {
	file   store.File
	info   fs.FileInfo
	at     int64 // where it was read last
	cancel context.CancelFunc
	once   sync.Once
}

// close ends whoever reads.
func (s *origin) close() {
	s.once.Do(func() {
		s.cancel()
		_ = s.file.Close()
	})
}

// A direct file is one of the source that the cache does not keep.
type direct struct {
	src  *origin
	stop func() bool
}

// newDirect returns a file of the source, which ends with ctx.
func newDirect(ctx context.Context, src *origin) *direct {
	return &direct{src, context.AfterFunc(ctx, src.cancel)}
}

func (d *direct) ReadAt(p []byte, off int64) (int, error) { return d.src.file.ReadAt(p, off) }

func (d *direct) Stat() (fs.FileInfo, error) { return d.src.file.Stat() }

// Location returns where the source has opened the file.
func (d *direct) Location() store.Location { return store.LocationOf(d.src.file) }

func (d *direct) Close() error {
	d.stop()
	defer d.src.cancel()
	return d.src.file.Close()
}
