package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/server/activity"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/internal/shares"
	"github.com/haul-project/haul/store"
)

const (
	// hashers is the number of goroutines that compute hashes. It is small, because these
	// goroutines compete with the goroutines that clients wait for.
	hashers = 2

	// maxHashes is how many files may wait until they are hashed. A source may take as many of
	// these places as are still free.
	maxHashes = 1 << 14

	hashBuffer = 256 << 10 // how many bytes of a file are read at a time

	// hashGrace is how long the server continues to hash waiting files when it shuts down.
	hashGrace = 5 * time.Second
)

// A Hasher computes the SHA-256 of uploaded files after they have been published under their names.
type Hasher struct {
	waiting chan hashing
	shares  shares.Table  // the number of waiting files in all, and of each source
	closing chan struct{} // closed when the server shuts down
	late    atomic.Bool   // set when hashGrace is over: the files that still wait are not hashed
	working sync.WaitGroup

	pending, made, missed atomic.Int64
}

// A hashing is a file that waits for its hash.
type hashing struct {
	event activity.Event
	file  *store.Published
	then  func(activity.Event)
}

// NewHasher returns a running Hasher.
func NewHasher() *Hasher {
	h := &Hasher{waiting: make(chan hashing, maxHashes), closing: make(chan struct{})}
	for range hashers {
		h.working.Go(h.work)
	}
	return h
}

// Hash computes the hash of an uploaded file. After that it sets in the event the hash, or the
// reason why the file was not hashed, and passes the event to the callback named then. file is the
// published file, or nil if it is not known; Hash closes it. If another file has taken the name
// since, Hash does not hash that file. Hash never blocks. It may call the callback before it
// returns.
func (h *Hasher) Hash(e activity.Event, file *store.Published, then func(activity.Event)) {
	one := hashing{e, file, then}
	h.pending.Add(1)
	if file == nil || file.File == nil && e.Path == "" {
		h.finish(one, "", errUnknown)
		return
	}
	if !h.shares.Take(e.Source(), 1, shares.Bound{Most: maxHashes, Times: 1}) {
		h.finish(one, "", errMany)
		return
	}
	h.waiting <- one // never blocks: a share was taken, so the channel has room
}

// These are the reasons why there is no hash.
var (
	errUnknown  = errors.New("the server does not know which file it is on a disk of this machine")
	errMany     = errors.New("too many files wait for their hash")
	errReplaced = errors.New("the file was replaced, changed or removed before it was read")
	errChanged  = errors.New("the file was changed while it was read")
	errEnds     = errors.New("the server ends")
)

func (h *Hasher) work() {
	buf := make([]byte, hashBuffer)
	for one, ok := h.next(); ok; one, ok = h.next() {
		h.shares.Give(one.event.Source(), 1)
		sum, err := h.sum(one, buf)
		h.finish(one, sum, err)
	}
}

// next waits for the next file. It returns false if the server shuts down and no file waits.
func (h *Hasher) next() (one hashing, ok bool) {
	select {
	case one = <-h.waiting:
		return one, true
	case <-h.closing:
	}
	select {
	case one = <-h.waiting:
		return one, true
	default:
		return one, false
	}
}

func (h *Hasher) finish(one hashing, sum activity.Sum, err error) {
	one.event.SHA256 = &sum
	if err != nil {
		h.missed.Add(1)
		one.event.Why = err.Error()
	} else {
		h.made.Add(1)
	}
	one.file.Close()
	one.then(one.event)
	h.pending.Add(-1)
}

// sum returns the hash of the published file. It reads the file through buf.
func (h *Hasher) sum(one hashing, buf []byte) (activity.Sum, error) {
	if h.late.Load() {
		return "", errEnds
	}
	f := one.file.File
	if f == nil {
		var err error
		if f, err = one.find(); err != nil {
			return "", err
		}
		defer f.Close()
	}
	info, err := f.Stat()
	if err != nil {
		return "", console.WithoutPath(err)
	}
	if info.Size() != one.file.Info.Size() || written(one.file.Info, info, one.file.When) {
		return "", errReplaced
	}
	began, hash := time.Now(), sha256.New()
	n, err := io.CopyBuffer(struct{ io.Writer }{hash}, struct{ io.Reader }{&untilLate{f, h}}, buf)
	if err != nil {
		return "", console.WithoutPath(err)
	}
	now, err := f.Stat()
	if err != nil {
		return "", console.WithoutPath(err)
	}
	if n != info.Size() || now.Size() != n || written(info, now, began) {
		return "", errChanged
	}
	return activity.Sum(hex.EncodeToString(hash.Sum(nil))), nil
}

// written reports whether the content of a file may have changed since the time `since`. `before`
// describes the file at that time, and `now` describes it at present. A changed modification time
// alone proves nothing: after the upload, a client may set it to a time in the past.
func written(before, now fs.FileInfo, since time.Time) bool {
	const clock = time.Second // timestamps of files may be this much behind the clock
	return !now.ModTime().Equal(before.ModTime()) && now.ModTime().After(since.Add(-clock))
}

// find opens the file at the path of the upload. Another file may be there by now, possibly even
// with the same inode number, so the modification time, too, must be that of the uploaded file.
func (one *hashing) find() (*os.File, error) {
	f, err := os.OpenFile(one.event.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // do not block on a pipe
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errReplaced
	}
	var info fs.FileInfo
	if err == nil {
		if info, err = f.Stat(); err == nil && (!os.SameFile(info, one.file.Info) || !info.ModTime().Equal(one.file.Info.ModTime())) {
			err = errReplaced
		}
		if err != nil {
			_ = f.Close()
		}
	}
	if err != nil {
		return nil, console.WithoutPath(err)
	}
	return f, nil
}

// untilLate reads a file for a Hasher. Reads fail once the Hasher's field late is set.
type untilLate struct {
	file   *os.File
	hasher *Hasher
}

func (u *untilLate) Read(b []byte) (int, error) {
	if u.hasher.late.Load() {
		return 0, errEnds
	}
	return u.file.Read(b)
}

// RegisterMetrics registers the counters. For a nil *Hasher there are no counters.
func (h *Hasher) RegisterMetrics(r *meter.Registry) {
	if h == nil {
		return
	}
	r.Counter("audit_hashes_total", "Hashes of uploads.", h.made.Load, "result", "done")
	r.Counter("audit_hashes_total", "Hashes of uploads.", h.missed.Load, "result", "failed")
	r.Gauge("audit_hashes_waiting", "Uploads that wait for their hash.", func() float64 { return float64(len(h.waiting)) })
}

// Close computes the hashes of the waiting files, for at most hashGrace. It returns the number of
// uploads that were not reported, because a disk hangs.
func (h *Hasher) Close() (left int64) {
	if h == nil {
		return 0
	}
	close(h.closing)
	done := make(chan struct{})
	go func() { h.working.Wait(); close(done) }()
	timer := time.AfterFunc(hashGrace, func() { h.late.Store(true) })
	defer timer.Stop()
	select {
	case <-done:
	case <-time.After(2 * hashGrace):
	}
	return h.pending.Load()
}
