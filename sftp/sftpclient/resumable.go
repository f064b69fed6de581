package sftpclient

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"time"

	"github.com/haul-project/haul/internal/rate"
	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/sftp/internal/mux"
	"github.com/haul-project/haul/store"
)

// The record of an upload is updated after recordEvery more bytes are confirmed. It is also updated
// after recordTime, if at least recordLeast more bytes are confirmed by then. That bounds how many
// bytes are sent again when the upload is resumed.
const (
	recordEvery = 32 << 20
	recordLeast = 1 << 20
	recordTime  = 5 * time.Second
)

// A resumableUpload is an upload that can be resumed. It has a record beside its temporary file.
// The next upload of the same source to the same target finds the record by its name. The record
// holds the name of the temporary file and the length up to which it is complete: sessions write
// ahead of each other, so the file's size does not show that length.
//
// Several processes may upload the same file at the same time, and SFTP has no locks. So each
// upload has its own name for the temporary file, and takes over the file of another upload by
// renaming it. If two uploads try that, the server lets only one of them succeed. The upload that
// had the file before cannot publish it any more. Until it notices that, it may still write to the
// file. It writes only bytes that the new owner writes too, because both have the same Source.
// Therefore an upload that fails does not truncate its file: the record says which part is
// complete. The upload that publishes the file truncates it, after it has checked that it owns the
// file.
//
// A separate OPEN creates the temporary file, because haul's own server hides a file that is
// created for writing, and discards it when the connection ends.
type resumableUpload struct {
	*upload
	dir           string // directory of the target, with a slash at the end
	record        uploadRecord
	owner         ownership
	resumed       int64     // number of bytes of an earlier upload that are reused
	exclusiveFrom time.Time // time after which no other upload writes to the file; zero if no other upload had the file

	mu      sync.Mutex
	whole   int64          // number of leading bytes that the server has confirmed; guarded by mu
	behind  int64          // number of leading bytes written, confirmed or not; guarded by mu
	high    int64          // offset of the end of the written data; guarded by mu
	noted   int64          // the value of `whole` in the latest record, which is written or being written; guarded by mu
	notedAt time.Time      // time at which noted was set; guarded by mu
	noting  bool           // a record is being written; guarded by mu
	pending sync.WaitGroup // waits for the goroutine that writes a record
}

var _ store.Resumer = (*resumableUpload)(nil)

// createResumable starts an upload that can be resumed, or resumes one.
func createResumable(ctx context.Context, c *Client, name string, o store.Create) (*resumableUpload, error) {
	if err := checkPath(name); err != nil {
		return nil, err
	}
	source := tempname.Source(o.Source)
	k := &resumableUpload{upload: newUpload(ctx, c, name, o)}
	link, err := k.look()
	if link {
		if k.target, err = linkTarget(ctx, c, k.target); err == nil {
			if link, err = k.look(); link {
				err = store.ErrNotRegular
			}
		}
	}
	if err != nil {
		return nil, err
	}
	dir, base := path.Split(k.target)
	k.dir = dir
	r := &k.record
	r.c, r.token = c, c.run.newKey()
	r.name = k.dir + tempname.New(tempname.Resume(o.Resume, base), tempname.Record)
	r.size, r.source = max(o.Size, 0), binary.BigEndian.Uint64(source[:])
	k.temp = k.hidden(r.token)
	k.owner.c, k.owner.ctx, k.owner.temp = c, ctx, k.temp
	k.vanished = k.confirmPublished
	if err := k.restore(); err != nil {
		return nil, err
	}
	if k.f == nil {
		if err := c.disk.askRoom(ctx, path.Dir(k.target), o.Size)(); err != nil {
			return nil, err
		}
		if err := k.startOver(); err != nil {
			return nil, err
		}
	}
	k.f.remote.Own = true
	k.f.name = k.target // the name in error messages
	k.f.confirmed, k.f.uncut = k.confirm, true
	k.owner.last = time.Now()
	k.noted, k.notedAt = k.resumed, k.owner.last
	return k, nil
}

// hidden returns the name of the temporary file with the given token.
func (k *resumableUpload) hidden(token string) string {
	return k.dir + tempname.New(token, tempname.Upload)
}

// look checks whether the upload may replace the file at its target: see replaces.
func (k *resumableUpload) look() (link bool, err error) {
	fi, err := k.c.Lstat(k.ctx, k.target)
	return k.replaces(fi, err)
}

// restore takes over the temporary file of an earlier upload, if that upload can be resumed. It
// returns an error only if a new upload would fail too.
func (k *resumableUpload) restore() error {
	r, ok, err := k.record.read(k.ctx)
	if err != nil || !ok {
		return err
	}
	left := k.hidden(r.File)
	if r.Source != k.record.source || r.Size != k.record.size || r.Whole == 0 {
		return removeIfAny(k.ctx, k.c, left)
	}
	// Write the record first: when the earlier upload misses its file, the record shows that
	// another upload has renamed it.
	if err := k.record.begin(k.ctx, r.Whole); err != nil {
		return err
	}
	if err := k.c.Rename(k.ctx, left, k.temp); err != nil {
		if isStatus(err) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			err = nil // another upload has taken the file over, or it was published
		}
		return err
	}
	f, err := k.takeOver(r.Whole)
	if err != nil || f == nil {
		if e := removeIfAny(k.ctx, k.c, k.temp); err == nil {
			err = e
		}
		return err
	}
	k.f, k.resumed, k.whole, k.behind, k.high = f, r.Whole, r.Whole, r.Whole, r.Whole
	if r.Open {
		k.exclusiveFrom = time.Now().Add(takeoverWait)
	}
	return nil
}

// takeOver opens the file that restore has renamed to k.temp. It returns nil if that is not the
// file that the record describes.
func (k *resumableUpload) takeOver(whole int64) (*File, error) {
	fi, err := k.c.Lstat(k.ctx, k.temp)
	if err != nil {
		return nil, err
	}
	// Other users cannot create a file that only this user may access.
	if !fi.Mode().IsRegular() || fi.Mode().Perm() != firstPerm || fi.Size() < whole {
		return nil, nil
	}
	f, err := k.c.OpenFile(k.ctx, k.temp, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	return f, err
}

// startOver creates a new file. It writes the record first, so that the next upload finds the file.
// If it may not replace the existing record, for example one of another user in a drop box, this
// upload has no record and cannot be resumed.
func (k *resumableUpload) startOver() error {
	k.record.seq = 0
	err := k.record.begin(k.ctx, 0)
	switch {
	case errors.Is(err, fs.ErrPermission):
		k.record.lost, k.record.blind = true, true
	case err != nil:
		return err
	}
	if err := createEmpty(k.ctx, k.c, k.temp, nil); err != nil {
		if !k.record.lost {
			_ = removeIfAny(k.ctx, k.c, k.record.name)
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

// Unwrap returns the plain upload, for [store.As].
func (k *resumableUpload) Unwrap() any { return k.upload }

// Resumed returns how many bytes of an earlier upload are reused.
func (k *resumableUpload) Resumed() int64 { return k.resumed }

// confirm records that the server has confirmed the bytes from start to end. It does not block.
func (k *resumableUpload) confirm(start, end int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if start > k.whole || end <= k.whole {
		return
	}
	k.whole, k.behind = end, max(k.behind, end)
	if !k.due(end) {
		return
	}
	k.noting = true
	k.pending.Go(k.updateRecord)
}

// due reports whether to update the record if all bytes up to end are complete. The caller holds
// mu.
func (k *resumableUpload) due(end int64) bool {
	more := end - k.noted
	return !k.noting && (more >= k.c.recordEvery || more >= recordLeast && time.Since(k.notedAt) >= recordTime)
}

// synced returns the file that the server has to write to its disk before the record is updated. It
// returns nil if the upload was created with NoSync.
func (k *resumableUpload) synced() *mux.File {
	if k.noSync {
		return nil
	}
	return k.f.remote
}

// updateRecord updates the record repeatedly until no update is due.
func (k *resumableUpload) updateRecord() {
	k.record.mu.Lock()
	defer k.record.mu.Unlock()
	for again := true; again; {
		k.mu.Lock()
		whole := k.whole
		k.noted, k.notedAt = whole, time.Now()
		k.mu.Unlock()
		// If this fails, fewer bytes can be resumed. A later confirmation tries again.
		err := k.record.checkpoint(k.ctx, whole, k.synced())
		k.mu.Lock()
		k.noting = false
		again = err == nil && k.due(k.whole)
		k.noting = again
		k.mu.Unlock()
	}
}

// WriteAt writes p at off. Data that is written in order, or nearly so, can be resumed.
func (k *resumableUpload) WriteAt(p []byte, off int64) (int, error) {
	if err := k.moveBack(off); err != nil {
		return 0, err
	}
	if err := k.owner.recheck(); err != nil {
		return 0, err
	}
	n, err := k.f.WriteAt(p, off)
	err = k.owner.busyIfGone(err)
	k.mu.Lock()
	k.high = max(k.high, off+int64(n))
	if off <= k.behind {
		k.behind = max(k.behind, off+int64(n))
	}
	behind, due := k.behind, k.due(k.behind)
	k.mu.Unlock()
	if due && err == nil {
		if err = k.f.awaitWrites(k.ctx); err == nil {
			k.confirm(0, behind)
		}
	}
	return n, err
}

// FillFrom is like [File.FillFrom]. It fails if another upload has taken the file over.
func (k *resumableUpload) FillFrom(ctx context.Context, r io.ReaderAt, off, size int64) (int64, error) {
	if err := k.moveBack(off); err != nil {
		return 0, err
	}
	n, err := k.f.FillFrom(ctx, ownReader{r, &k.owner}, off, size)
	err = k.owner.busyIfGone(err)
	k.mu.Lock()
	k.high = max(k.high, off+n)
	k.mu.Unlock()
	k.confirm(off, off+n)
	return n, err
}

// Truncate sets the size of the file in bytes. It fails if another upload has taken the file over.
func (k *resumableUpload) Truncate(size int64) error {
	if err := k.owner.check(k.ctx); err != nil {
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

// moveBack ensures that the record counts no byte after off as complete, because those bytes will
// be written again.
func (k *resumableUpload) moveBack(off int64) error {
	k.mu.Lock()
	k.whole = min(k.whole, max(off, 0))
	whole, less := k.whole, k.noted <= k.whole // less: the record counts no byte after k.whole as complete
	k.mu.Unlock()
	if less {
		return nil
	}
	k.record.mu.Lock()
	defer k.record.mu.Unlock()
	if k.record.safe > whole && !k.record.lost {
		if err := k.record.checkpoint(k.ctx, whole, nil); err != nil {
			return err
		}
	}
	k.mu.Lock()
	k.noted = min(k.noted, whole)
	k.mu.Unlock()
	return nil
}

// Commit gives the file its name. If the context has ended, it does nothing, and Close keeps the
// file for resuming. If another upload has taken the file over, the error is [store.ErrBusy], and
// that upload publishes the file.
func (k *resumableUpload) Commit() error {
	k.pending.Wait()
	k.owner.pending.Wait()
	if k.ctx.Err() != nil {
		return k.fail("commit", context.Cause(k.ctx))
	}
	if err := k.finishWrites(); err != nil {
		return k.fail("commit", err)
	}
	if err := k.upload.Commit(); err != nil {
		gone := k.owner.check(k.ctx) != nil
		if gone && errors.Is(err, fs.ErrNotExist) {
			return k.fail("commit", store.ErrBusy)
		}
		if gone { // publishing was refused, and the file was removed
			k.record.mu.Lock()
			defer k.record.mu.Unlock()
			k.record.remove(k.ctx)
		}
		return err
	}
	k.record.mu.Lock()
	defer k.record.mu.Unlock()
	if !k.record.lost {
		// If the record has gone to another upload since the last check, that upload can still
		// publish.
		_ = removeIfAny(k.ctx, k.c, k.record.name)
	}
	return nil
}

// Close ends the upload, and keeps the bytes that the server has confirmed for resuming.
func (k *resumableUpload) Close() error {
	k.pending.Wait()
	k.owner.pending.Wait()
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
	if k.owner.lost.Load() {
		return nil // the new owner handles the rest
	}
	k.record.mu.Lock()
	defer k.record.mu.Unlock()
	k.record.closing = true
	var err error
	if whole = max(whole, k.record.safe); whole > 0 {
		err = k.record.checkpoint(ctx, whole, nil)
	}
	if k.record.safe == 0 || k.record.lost || k.record.blind { // the upload could not be resumed
		err = k.discardAll(ctx)
	}
	return k.fail("keep", err)
}

// Discard ends the upload and keeps nothing for resuming.
func (k *resumableUpload) Discard() error {
	k.pending.Wait()
	k.owner.pending.Wait()
	if !k.end() {
		return nil
	}
	_ = k.f.close(false)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.ctx), k.c.config.Timeout)
	defer cancel()
	k.record.mu.Lock()
	defer k.record.mu.Unlock()
	return k.fail("discard", k.discardAll(ctx))
}

// discardAll removes the record, and then the temporary file. The caller holds the record's mu.
func (k *resumableUpload) discardAll(ctx context.Context) error {
	k.record.remove(ctx)
	return removeIfAny(ctx, k.c, k.temp)
}

// finishWrites waits until the server has confirmed all written data, and until no other upload
// writes to the file. It sets the size of the file to the end of the written data.
func (k *resumableUpload) finishWrites() error {
	if k.owner.lost.Load() {
		return store.ErrBusy
	}
	if err := k.f.awaitWrites(k.ctx); err != nil {
		return k.owner.busyIfGone(err)
	}
	if !k.exclusiveFrom.IsZero() {
		if err := rate.Sleep(k.ctx, time.Until(k.exclusiveFrom)); err != nil {
			return err
		}
	}
	fi, err := k.f.Stat()
	if err != nil {
		return err
	}
	k.mu.Lock()
	high := k.high
	k.mu.Unlock()
	switch {
	case fi.Size() < high:
		return fmt.Errorf("%w: of %d bytes that were written, the server has %d", store.ErrBusy, high, fi.Size())
	case fi.Size() > high: // the file of the earlier upload was longer
		if err := k.owner.check(k.ctx); err != nil {
			return err
		}
		return k.f.Truncate(high)
	}
	return nil
}

// confirmPublished is called if the temporary file does not exist any more. It returns nil if this
// upload has renamed the file. It returns [store.ErrBusy] if the record belongs to another upload:
// an upload that takes a file over writes its own record first.
func (k *resumableUpload) confirmPublished() error {
	k.record.mu.Lock()
	defer k.record.mu.Unlock()
	if ours, _ := k.record.whose(k.ctx); ours && !k.record.lost {
		return nil
	}
	k.owner.lost.Store(true)
	return store.ErrBusy
}
