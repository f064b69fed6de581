package sftp

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"

	"github.com/haul-project/haul/store"
)

const (
	// keepEvery is how much of an upload that is to be resumed may be lost: after
	// as much, its record is brought up to date.
	keepEvery = 32 << 20

	// maxKeepTries is how often something may have the hidden name while a file of
	// that name is created.
	maxKeepTries = 3
)

// A keptUpload is an upload whose hidden file has a name that the next upload of
// the same file by the same one finds, and a record beside it that says what of
// it is whole: lanes write ahead of each other, so its size does not tell.
//
// The hidden file is not opened to be made anew, as a server of haul would keep
// that from sight, and discard it with the connection.
type keptUpload struct {
	*upload
	record  string // the name of the record
	size    int64  // Create.Size
	source  uint64 // of Create.Source
	resumed int64

	marking sync.Mutex // held while the record is written
	seq     uint64     // marking: of the last one
	marked  int64      // marking: what it says
	made    bool       // marking: there is a record

	mu      sync.Mutex
	whole   int64          // mu: what the server has confirmed, from the start
	behind  int64          // mu: what was written without a gap, confirmed or not
	due     bool           // mu: a record is being written
	pending sync.WaitGroup // the goroutine that does so
}

var (
	_ store.Resumer        = (*keptUpload)(nil)
	_ store.AttrUpload     = (*keptUpload)(nil)
	_ store.ReadableUpload = (*keptUpload)(nil)
)

// createKept begins an upload that can be resumed, or goes on with one.
func (c *Client) createKept(ctx context.Context, name string, o store.Create) (*keptUpload, error) {
	if err := checkPath(name); err != nil {
		return nil, err
	}
	k := &keptUpload{upload: c.newUpload(ctx, name, o), size: max(o.Size, 0), source: sourceSum(o.Source)}
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
	dir, base := path.Split(k.target)
	key := keepKey(o.Resume, base)
	k.temp = dir + uploadPrefix + key + uploadSuffix
	k.record = dir + uploadPrefix + key + recordSuffix
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
	k.f.remote.own = true
	k.f.confirmed = k.confirm
	return k, nil
}

// keepKey is the same for each upload of base, in its directory, by who.
func keepKey(who, base string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "haul upload\x00%d\x00%s\x00%s", len(who), who, base))
	return base32.StdEncoding.EncodeToString(sum[:])[:uploadRandom]
}

// sourceSum is what a record has of Create.Source.
func sourceSum(source string) uint64 {
	sum := sha256.Sum256([]byte("haul source\x00" + source))
	return binary.BigEndian.Uint64(sum[:])
}

// look looks at what is in the upload's place.
func (k *keptUpload) look() (link bool, err error) {
	fi, err := k.c.Lstat(k.ctx, k.target)
	return k.replaces(fi, err)
}

// restore opens what an earlier upload left, if that can be gone on with. Only an
// error that a new one would run into as well is one.
func (k *keptUpload) restore() error {
	r, ok, err := k.readRecord()
	if err != nil || !ok || r.source != k.source || r.size != k.size || r.whole == 0 {
		return err
	}
	fi, err := k.c.Lstat(k.ctx, k.temp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// What others put there they could not make ours alone.
	if !fi.Mode().IsRegular() || fi.Mode().Perm() != firstPerm || fi.Size() < r.whole {
		return nil
	}
	f, err := k.c.OpenFile(k.ctx, k.temp, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	if fi.Size() > r.whole {
		if err := f.Truncate(r.whole); err != nil {
			_ = f.Close()
			return err
		}
	}
	k.f, k.seq, k.marked, k.made = f, r.seq, r.whole, true
	k.resumed, k.whole, k.behind = r.whole, r.whole, r.whole
	return nil
}

// anew begins with nothing. The record goes first: what it says is of another
// file.
func (k *keptUpload) anew() error {
	if err := k.remove(k.ctx, k.record); err != nil {
		return err
	}
	if err := k.createEmpty(k.ctx, k.temp, nil); err != nil {
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
func (k *keptUpload) createEmpty(ctx context.Context, name string, content []byte) error {
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

func (k *keptUpload) remove(ctx context.Context, name string) error {
	err := k.c.RemoveFile(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Resumed returns how many bytes are there from before.
func (k *keptUpload) Resumed() int64 { return k.resumed }

// confirm notes that the server has all up to end of what FillFrom sends. It does
// not wait.
func (k *keptUpload) confirm(start, end int64) {
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
func (k *keptUpload) keepUp() {
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
func (k *keptUpload) WriteAt(p []byte, off int64) (int, error) {
	if err := k.moveBack(off); err != nil {
		return 0, err
	}
	n, err := k.f.WriteAt(p, off)
	k.mu.Lock()
	if off <= k.behind {
		k.behind = max(k.behind, off+int64(n))
	}
	behind, due := k.behind, k.behind-k.whole >= k.c.keepEvery
	k.mu.Unlock()
	if due && err == nil {
		if err = k.f.settle(k.ctx); err == nil {
			k.confirm(0, behind)
		}
	}
	return n, err
}

// FillFrom is [File.FillFrom].
func (k *keptUpload) FillFrom(ctx context.Context, r io.ReaderAt, off, size int64) (int64, error) {
	if err := k.moveBack(off); err != nil {
		return 0, err
	}
	n, err := k.f.FillFrom(ctx, r, off, size)
	k.confirm(off, off+n)
	return n, err
}

// Truncate sets the size.
func (k *keptUpload) Truncate(size int64) error {
	if err := k.moveBack(size); err != nil {
		return err
	}
	if err := k.f.Truncate(size); err != nil {
		return err
	}
	k.mu.Lock()
	k.behind = min(k.behind, size)
	k.mu.Unlock()
	return nil
}

// moveBack sees to it that the record says no more than off is whole, as what is
// behind that is to be written anew.
func (k *keptUpload) moveBack(off int64) error {
	k.mu.Lock()
	k.whole = min(k.whole, max(off, 0))
	whole := k.whole
	k.mu.Unlock()
	k.marking.Lock()
	defer k.marking.Unlock()
	if k.marked <= whole {
		return nil
	}
	return k.mark(k.ctx, whole, false)
}

// Commit gives the file its name. If the context has ended it does nothing, and
// Close keeps what there is.
func (k *keptUpload) Commit() error {
	k.pending.Wait()
	if k.ctx.Err() != nil {
		return k.fail("commit", context.Cause(k.ctx))
	}
	if err := k.upload.Commit(); err != nil {
		return err
	}
	k.marking.Lock()
	defer k.marking.Unlock()
	if k.made {
		// Alone it means nothing.
		_ = k.remove(k.ctx, k.record)
	}
	return nil
}

// Close keeps what the server has confirmed, if there is any.
func (k *keptUpload) Close() error {
	k.pending.Wait()
	if !k.end() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.ctx), k.c.config.Timeout)
	defer cancel()
	k.mu.Lock()
	whole, behind := k.whole, k.behind
	k.mu.Unlock()
	if behind > whole && k.f.settle(ctx) == nil {
		whole = behind
	}
	_ = k.f.close(false)
	k.marking.Lock()
	defer k.marking.Unlock()
	var err error
	if whole > k.marked {
		err = k.mark(ctx, whole, false)
	}
	if k.marked == 0 { // there is nothing to go on from
		if e := k.discardAll(ctx); err == nil {
			err = e
		}
	}
	if err != nil {
		return k.fail("keep", err)
	}
	return nil
}

// Discard ends the upload and keeps nothing.
func (k *keptUpload) Discard() error {
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
func (k *keptUpload) discardAll(ctx context.Context) error {
	err := k.remove(ctx, k.record)
	if e := k.remove(ctx, k.temp); err == nil {
		err = e
	}
	return err
}
