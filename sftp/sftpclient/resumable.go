package sftpclient

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/store"
)

const (
	// keepEvery is how much of an upload that is to be resumed may be lost: after
	// as much, its record is brought up to date.
	keepEvery = 32 << 20

	// maxKeepTries is how often something may have the hidden name while a file of
	// that name is created.
	maxKeepTries = 3

	// ownEvery is how long an upload goes on without a look whether another one
	// has taken its file over, and takeoverWait how long the other waits before it
	// gives the file its name, so that the look was taken by then.
	ownEvery     = time.Second
	takeoverWait = 3 * ownEvery
)

// A resumableUpload is an upload with a record beside its hidden file, of a name that
// the next upload of the same file by the same one finds. It says which the hidden
// file is, and what of it is whole: lanes write ahead of each other, so its size
// does not tell.
//
// To the one upload there may be others at the same time, in other processes, and
// SFTP has no locks. So each has a name of its own for its hidden file, and takes
// over what another left by giving it that name: of two that do so, the server
// lets one have it, and the upload that had it before cannot publish it any more.
// Until that notices, it may write to the file, but only what the next owner writes
// there as well: both have the same Source. Hence an upload that fails does not cut
// its file: the record says what is whole, and the upload that publishes the file
// cuts the rest, once it has looked whether it owns the file.
//
// The hidden file is not opened to be made anew, as a server of haul would keep
// that from sight, and discard it with the connection.
type resumableUpload struct {
	*upload
	dir           string // of the target, with a slash
	token         string // what is random in the hidden file's name
	record        string // the name of the record
	size          int64  // Create.Size
	source        uint64 // of Create.Source
	resumed       int64
	exclusiveFrom time.Time      // from when on nobody else writes to the file; zero if nobody has
	lost          atomic.Bool    // another upload has taken the file over
	looked        ownershipLooks // when that was looked at

	marking       sync.Mutex // held while the record is written
	seq           uint64     // marking: of the last one
	marked        int64      // marking: what it says
	closing       bool       // marking: what comes is its last state
	lostOwnership bool       // marking: and it is another upload's by now
	blind         bool       // marking: the server lets it not be looked at, so nothing can be gone on with

	mu      sync.Mutex
	whole   int64          // mu: what the server has confirmed, from the start
	behind  int64          // mu: what was written without a gap, confirmed or not
	high    int64          // mu: the end of what was written
	due     bool           // mu: a record is being written
	pending sync.WaitGroup // the goroutine that does so
}

var (
	_ store.Resumer        = (*resumableUpload)(nil)
	_ store.AttrUpload     = (*resumableUpload)(nil)
	_ store.ReadableUpload = (*resumableUpload)(nil)
)

// createResumable begins an upload that can be resumed, or goes on with one.
func (c *Client) createResumable(ctx context.Context, name string, o store.Create) (*resumableUpload, error) {
	if err := checkPath(name); err != nil {
		return nil, err
	}
	source := tempname.Source(o.Source)
	k := &resumableUpload{upload: c.newUpload(ctx, name, o), size: max(o.Size, 0), source: binary.BigEndian.Uint64(source[:])}
	link, err := k.look()
	if link {
		if k.target, err = c.linkTarget(ctx, k.target); err == nil {
			if link, err = k.look(); link {
				err = store.ErrNotRegular
			}
		}
	}
	if err != nil {
		return nil, err
	}
	base := ""
	k.dir, base = path.Split(k.target)
	k.token = tempname.Random()
	k.temp = k.hidden(k.token)
	k.record = k.dir + tempname.New(tempname.Resume(o.Resume, base), tempname.Record)
	k.vanished = k.confirmPublished
	if err := k.restore(); err != nil {
		return nil, err
	}
	if k.f == nil {
		if err := c.askRoom(ctx, path.Dir(k.target), o.Size); err != nil {
			return nil, err
		}
		if err := k.anew(); err != nil {
			return nil, err
		}
	}
	k.f.remote.Own = true
	k.f.name = k.target // for messages
	k.f.confirmed, k.f.uncut = k.confirm, true
	k.looked.last = time.Now()
	return k, nil
}

// hidden returns the name of the hidden file that a record calls so.
func (k *resumableUpload) hidden(token string) string {
	return k.dir + tempname.New(token, tempname.Upload)
}

// look looks at what is in the upload's place.
func (k *resumableUpload) look() (link bool, err error) {
	fi, err := k.c.Lstat(k.ctx, k.target)
	return k.replaces(fi, err)
}

// restore takes over what an earlier upload left, if that can be gone on with.
// Only an error that a new one would run into as well is one.
func (k *resumableUpload) restore() error {
	r, ok, err := k.readRecord()
	if err != nil || !ok {
		return err
	}
	left := k.hidden(r.file)
	if r.source != k.source || r.size != k.size || r.whole == 0 {
		return k.remove(k.ctx, left)
	}
	// The record first: an upload whose file has another name finds in it that
	// another upload has renamed the file.
	if err := k.newRecord(k.ctx, r.whole); err != nil {
		return err
	}
	if err := k.c.Rename(k.ctx, left, k.temp); err != nil {
		if isStatus(err) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			err = nil // another was quicker, or it is published
		}
		return err
	}
	f, err := k.takeOver(r.whole)
	if err != nil || f == nil {
		if e := k.remove(k.ctx, k.temp); err == nil {
			err = e
		}
		return err
	}
	k.f, k.resumed, k.whole, k.behind, k.high = f, r.whole, r.whole, r.whole, r.whole
	if r.open {
		k.exclusiveFrom = time.Now().Add(takeoverWait)
	}
	return nil
}

// takeOver opens the file that has the hidden name now, or returns nil if it is
// not what the record tells of.
func (k *resumableUpload) takeOver(whole int64) (*File, error) {
	fi, err := k.c.Lstat(k.ctx, k.temp)
	if err != nil {
		return nil, err
	}
	// What others put there they could not make ours alone.
	if !fi.Mode().IsRegular() || fi.Mode().Perm() != firstPerm || fi.Size() < whole {
		return nil, nil
	}
	f, err := k.c.OpenFile(k.ctx, k.temp, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	return f, err
}

// anew begins with nothing. The record goes first, so that there is no file that
// the next upload would not find. Where a record is that may not be replaced, as
// another upload's in a drop box, this upload has none, and cannot be resumed.
func (k *resumableUpload) anew() error {
	k.seq = 0
	err := k.newRecord(k.ctx, 0)
	switch {
	case errors.Is(err, fs.ErrPermission):
		k.lostOwnership, k.blind = true, true
	case err != nil:
		return err
	}
	if err := k.createEmpty(k.ctx, k.temp, nil); err != nil {
		if !k.lostOwnership {
			_ = k.remove(k.ctx, k.record)
		}
		return err
	}
	f, err := k.c.OpenFile(k.ctx, k.temp, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	k.f = f
	return nil
}

// createEmpty creates a file that nobody else has put there, with some content,
// and closes it.
func (k *resumableUpload) createEmpty(ctx context.Context, name string, content []byte) error {
	for tries := 1; ; tries++ {
		f, err := k.c.OpenFile(ctx, name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, firstPerm)
		if err == nil {
			if len(content) > 0 {
				_, err = f.WriteAt(content, 0)
			}
			f.wrote()
			if e := f.Close(); err == nil {
				err = e
			}
			return err
		}
		if !errors.Is(err, fs.ErrExist) && !isFailure(err) || tries == maxKeepTries {
			return err
		}
		if err := k.remove(ctx, name); err != nil {
			return err
		}
	}
}

func (k *resumableUpload) remove(ctx context.Context, name string) error {
	err := k.c.RemoveFile(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Resumed returns how many bytes are there from before.
func (k *resumableUpload) Resumed() int64 { return k.resumed }

// confirm notes that the server has all up to end of what FillFrom sends. It does
// not wait.
func (k *resumableUpload) confirm(start, end int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if start > k.whole || end <= k.whole {
		return
	}
	k.whole, k.behind = end, max(k.behind, end)
	if k.due {
		return
	}
	k.due = true
	k.pending.Go(k.keepUp)
}

// keepUp brings the record up to date as long as it is behind.
func (k *resumableUpload) keepUp() {
	k.marking.Lock()
	defer k.marking.Unlock()
	for {
		k.mu.Lock()
		whole := k.whole
		k.due = whole-k.marked >= k.c.keepEvery
		due := k.due
		k.mu.Unlock()
		if !due {
			return
		}
		if err := k.mark(k.ctx, whole, true); err != nil {
			// It costs no more than what could be resumed. What comes later may
			// try again.
			k.mu.Lock()
			k.due = false
			k.mu.Unlock()
			return
		}
	}
}

// WriteAt writes p at off. What comes in order, or nearly so, can be resumed.
func (k *resumableUpload) WriteAt(p []byte, off int64) (int, error) {
	if err := k.moveBack(off); err != nil {
		return 0, err
	}
	if err := k.checkOwn(); err != nil {
		return 0, err
	}
	n, err := k.f.WriteAt(p, off)
	err = k.busyIfGone(err)
	k.mu.Lock()
	k.high = max(k.high, off+int64(n))
	if off <= k.behind {
		k.behind = max(k.behind, off+int64(n))
	}
	behind, due := k.behind, k.behind-k.whole >= k.c.keepEvery
	k.mu.Unlock()
	if due && err == nil {
		if err = k.f.awaitWrites(k.ctx); err == nil {
			k.confirm(0, behind)
		}
	}
	return n, err
}

// FillFrom is [File.FillFrom].
func (k *resumableUpload) FillFrom(ctx context.Context, r io.ReaderAt, off, size int64) (int64, error) {
	if err := k.moveBack(off); err != nil {
		return 0, err
	}
	n, err := k.f.FillFrom(ctx, ownReader{r, k}, off, size)
	err = k.busyIfGone(err)
	k.mu.Lock()
	k.high = max(k.high, off+n)
	k.mu.Unlock()
	k.confirm(off, off+n)
	return n, err
}

// Truncate sets the size.
func (k *resumableUpload) Truncate(size int64) error {
	if err := k.stillOurs(k.ctx); err != nil {
		return err
	}
	if err := k.moveBack(size); err != nil {
		return err
	}
	if err := k.f.Truncate(size); err != nil {
		return err
	}
	k.mu.Lock()
	k.behind, k.high = min(k.behind, size), size
	k.mu.Unlock()
	return nil
}

// moveBack sees to it that the record says no more than off is whole, as what is
// behind that is to be written anew.
func (k *resumableUpload) moveBack(off int64) error {
	k.mu.Lock()
	k.whole = min(k.whole, max(off, 0))
	whole := k.whole
	k.mu.Unlock()
	k.marking.Lock()
	defer k.marking.Unlock()
	if k.marked <= whole || k.lostOwnership {
		return nil
	}
	return k.mark(k.ctx, whole, false)
}

// Commit gives the file its name. If the context has ended it does nothing, and
// Close keeps what there is. If another upload has taken the file over, it is
// [store.ErrBusy], and the other's to publish.
func (k *resumableUpload) Commit() error {
	k.pending.Wait()
	if k.ctx.Err() != nil {
		return k.fail("commit", context.Cause(k.ctx))
	}
	if err := k.finishWrites(); err != nil {
		return k.fail("commit", err)
	}
	if err := k.upload.Commit(); err != nil {
		gone := k.stillOurs(k.ctx) != nil
		if gone && errors.Is(err, fs.ErrNotExist) {
			return k.fail("commit", store.ErrBusy)
		}
		if gone { // refused, and removed
			k.marking.Lock()
			defer k.marking.Unlock()
			k.removeRecord(k.ctx)
		}
		return err
	}
	k.marking.Lock()
	defer k.marking.Unlock()
	if !k.lostOwnership {
		// If it is another's since the last look, that one can still be published.
		_ = k.remove(k.ctx, k.record)
	}
	return nil
}

// Close keeps what the server has confirmed, if there is any.
func (k *resumableUpload) Close() error {
	k.pending.Wait()
	if !k.end() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.ctx), k.c.config.Timeout)
	defer cancel()
	k.mu.Lock()
	whole, behind := k.whole, k.behind
	k.mu.Unlock()
	if behind > whole && k.f.awaitWrites(ctx) == nil {
		whole = behind
	}
	_ = k.f.close(false)
	if k.lost.Load() {
		return nil // its owner does the rest
	}
	k.marking.Lock()
	defer k.marking.Unlock()
	k.closing = true
	var err error
	if whole = max(whole, k.marked); whole > 0 {
		err = k.mark(ctx, whole, false)
	}
	if k.marked == 0 || k.lostOwnership || k.blind { // there is nothing to go on from
		err = k.discardAll(ctx)
	}
	if err != nil {
		return k.fail("keep", err)
	}
	return nil
}

// Discard ends the upload and keeps nothing.
func (k *resumableUpload) Discard() error {
	k.pending.Wait()
	if !k.end() {
		return nil
	}
	_ = k.f.close(false)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.ctx), k.c.config.Timeout)
	defer cancel()
	k.marking.Lock()
	defer k.marking.Unlock()
	if err := k.discardAll(ctx); err != nil {
		return k.fail("discard", err)
	}
	return nil
}

// discardAll removes the record, and then what it tells of. The caller holds
// marking.
func (k *resumableUpload) discardAll(ctx context.Context) error {
	k.removeRecord(ctx)
	return k.remove(ctx, k.temp)
}
