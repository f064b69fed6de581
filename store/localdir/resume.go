package localdir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/haul-project/haul/internal/filelock"
	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/store"
)

// A sweep holds the lock of a temporary file for a moment. A resumed upload tries to get the lock
// maxLockTries times, lockEvery apart.
const (
	maxLockTries = 10
	lockEvery    = 20 * time.Millisecond
)

const (
	// maxKeepTries is the largest number of attempts to open the temporary file while others remove
	// it.
	maxKeepTries = 8
)

var _ store.Resumer = (*resumableUpload)(nil)

// A resumableUpload has a temporary file whose name the next upload of the same file by the same
// user can compute. A second file beside it holds the checkpoint, which records how many of its
// bytes are safe.
//
// Data is made durable before the checkpoint advances over it, and the checkpoint moves back before
// data that it covers is overwritten. So the checkpoint on the disk is always valid after a crash
// of the machine, though it may be an older one.
type resumableUpload struct {
	*dirUpload
	key     string // the part that the names of the temporary file and of the checkpoint's file have in common
	resumed int64

	checking    sync.Mutex // held while the checkpoint is changed
	checkpoints *os.File   // the file that holds the checkpoint; nil before the first checkpoint; guarded by checking
	last        checkpoint // the checkpoint that was stored last; guarded by checking

	mu      sync.Mutex
	written written // which parts of the file were written; guarded by mu
	saved   int64   // copy of last.safe; guarded by mu
	broken  error   // the error of a sync after which written data may be lost; guarded by mu
}

func (k *resumableUpload) dataName() string       { return tempname.New(k.key, tempname.Keep) }
func (k *resumableUpload) checkpointName() string { return tempname.New(k.key, tempname.Checkpoint) }

// resume opens the files that an earlier upload left, or creates new ones. u.dir and u.base are set
// already. On a file system without locks, where the files of a dead upload look like those of one
// in progress, it returns errors.ErrUnsupported.
func (u *dirUpload) resume() (*resumableUpload, error) {
	k := &resumableUpload{dirUpload: u, key: tempname.Resume(u.c.Resume, u.base)}
	for range maxKeepTries {
		found, err := k.openKept()
		if err != nil {
			return nil, err
		}
		if !found || !k.restore() {
			err = k.createKept(found)
		}
		if err == nil {
			u.after = k.dropCheckpoints
			return k, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("another process removed the temporary file %d times in a row", maxKeepTries)
}

// openKept opens and locks the temporary file of an earlier upload, if there is one.
func (k *resumableUpload) openKept() (found bool, err error) {
	open := func(flags int) error {
		return k.call("open", func() (err error) {
			k.file, err = openRegular(k.dir, k.dataName(), flags)
			return err
		})
	}
	err = open(os.O_RDWR)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.Is(err, store.ErrNotRegular): // no upload creates such an entry, so remove it
		return false, k.dir.Remove(k.dataName())
	case errors.Is(err, fs.ErrPermission):
		// An interrupted Commit may have made the file read-only.
		if err := open(os.O_RDONLY); err != nil {
			return false, err
		}
		found, err := k.lockKept()
		if !found {
			return false, err
		}
		err = k.file.Chmod(0o600)
		_ = k.file.Close()
		if err == nil {
			err = open(os.O_RDWR)
		}
		if err != nil {
			k.file = nil
			return false, err
		}
	case err != nil:
		return false, err
	}
	return k.lockKept()
}

// lockKept locks the temporary file. It returns false if the file has lost its name meanwhile, and
// ErrBusy if another upload holds the lock.
func (k *resumableUpload) lockKept() (bool, error) {
	locked, err := k.lockSoon()
	if err == nil && !locked {
		err = store.ErrBusy
	}
	if err == nil {
		mine, statErr := k.file.Stat()
		named, nameErr := k.dir.Lstat(k.dataName())
		if statErr == nil && nameErr == nil && os.SameFile(mine, named) {
			return true, nil
		}
	}
	_ = k.file.Close()
	k.file = nil
	return false, err
}

// restore keeps the safe part of the temporary file, and cuts off the rest. It returns false if the
// file cannot be trusted.
func (k *resumableUpload) restore() bool {
	fi, err := k.file.Stat()
	if err != nil || !k.owned(fi) {
		return false
	}
	f, err := openRegular(k.dir, k.checkpointName(), os.O_RDWR)
	if err != nil {
		return false
	}
	m, ok := readCheckpoint(f)
	recordInfo, err := f.Stat()
	if locked, lockErr := filelock.Try(f); err != nil || lockErr != nil || !locked || !ok || !k.owned(recordInfo) {
		_ = f.Close()
		return false
	}
	k.checkpoints, k.last = f, m
	sum, err := tailSum(k.file, m.size)
	switch {
	case err != nil, sum != m.tail,
		m.inode != inode(fi),
		m.source != sourceSum(k.c.Source),
		m.expected != max(k.c.Size, 0):
		return false
	}
	if err := k.call("truncate", func() error { return k.file.Truncate(m.safe) }); err != nil {
		return false
	}
	_ = k.file.Chmod(0o600) // an interrupted Commit may have let others read the file; an error only leaves it readable
	k.temp = k.dataName()
	k.resumed, k.saved, k.written.prefix = m.safe, m.safe, m.safe
	k.end, k.data = m.safe, m.safe
	return true
}

// owned reports whether a temporary file belongs to this process's user, and has no other name. If
// it has another name, an interrupted Commit may have published it already.
func (k *resumableUpload) owned(fi fs.FileInfo) bool {
	if d, ok := store.DetailsOf(fi); ok && (d.Links != 1 || int(d.UID) != os.Geteuid()) {
		return false
	}
	named, err := k.dir.Lstat(k.base)
	return err != nil || !os.SameFile(named, fi)
}

// createKept creates a new temporary file. If found is set, there is an old one that cannot be
// trusted or is not ours: it is never written to, and is first removed together with its
// checkpoint, durably.
func (k *resumableUpload) createKept(found bool) error {
	if found {
		if err := k.forget(); err != nil {
			return err
		}
	}
	err := k.store.durably(k.dir, func() error {
		return k.call("remove", func() error { return k.dir.Remove(k.checkpointName()) })
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = k.call("create", func() (err error) {
		k.file, err = k.dir.OpenFile(k.dataName(), os.O_RDWR|os.O_CREATE|os.O_EXCL|fileFlags, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	k.temp = k.dataName()
	locked, err := k.lockKept()
	if err == nil && !locked {
		err = fs.ErrExist // a sweep has removed the new file; the caller tries again
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, store.ErrBusy) {
		k.temp = "" // the file belongs to another upload, so do not remove it
	}
	return err
}

// forget closes the files that were found, and removes the temporary file.
func (k *resumableUpload) forget() error {
	k.closeCheckpoints()
	_ = k.file.Close()
	k.file, k.temp, k.last = nil, "", checkpoint{}
	err := k.call("remove", func() error { return k.dir.Remove(k.dataName()) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (k *resumableUpload) closeCheckpoints() {
	if k.checkpoints != nil {
		_ = k.checkpoints.Close()
		k.checkpoints = nil
	}
}

// Unwrap is for [store.As].
func (k *resumableUpload) Unwrap() any { return k.dirUpload }

func (k *resumableUpload) Resumed() int64 { return k.resumed }

func (k *resumableUpload) WriteAt(p []byte, off int64) (int, error) {
	k.mu.Lock()
	again := off < k.written.prefix && off >= 0 && len(p) > 0
	k.mu.Unlock()
	if again {
		return k.rewrite(p, off)
	}
	n, err := k.dirUpload.WriteAt(p, off)
	if due := k.note(off, n); due && err == nil && k.checking.TryLock() {
		defer k.checking.Unlock()
		err = k.checkpoint()
	}
	return n, err
}

// note records a write, and reports whether the checkpoint should advance now.
func (k *resumableUpload) note(off int64, n int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n > 0 {
		k.written.add(off, off+int64(n))
	}
	return k.written.prefix-k.saved >= k.store.checkpoint && k.broken == nil
}

// rewrite overwrites data. If the checkpoint covers that data, the checkpoint is moved back first,
// as it must not cover data that is not durable.
func (k *resumableUpload) rewrite(p []byte, off int64) (int, error) {
	k.checking.Lock()
	defer k.checking.Unlock()
	if err := k.moveBack(off); err != nil {
		return 0, k.fail("write", err)
	}
	n, err := k.dirUpload.WriteAt(p, off)
	k.note(off, n)
	return n, err
}

func (k *resumableUpload) Truncate(size int64) error {
	k.checking.Lock()
	defer k.checking.Unlock()
	if size >= 0 {
		if err := k.moveBack(size); err != nil {
			return k.fail("truncate", err)
		}
	}
	err := k.dirUpload.Truncate(size)
	if err == nil {
		k.mu.Lock()
		k.written.cut(size)
		k.mu.Unlock()
	}
	return err
}

// moveBack moves the checkpoint back, durably, so that it covers at most `safe` bytes. The caller
// holds checking.
func (k *resumableUpload) moveBack(safe int64) error {
	if k.checkpoints == nil || k.last.safe <= safe {
		return nil
	}
	if err := k.storeCheckpoint(safe); err != nil {
		return err
	}
	return k.call("sync", func() error { return datasync(k.checkpoints) })
}

// checkpoint makes all data before the first gap durable, and then stores a checkpoint that covers
// it. The caller holds checking.
func (k *resumableUpload) checkpoint() error {
	k.mu.Lock()
	safe, err := k.written.prefix, k.broken
	k.mu.Unlock()
	if err == nil {
		err = k.call("datasync", func() error { return datasync(k.file) })
	}
	if err != nil {
		// The kernel reports an error only once, and a later sync would not notice that data was
		// lost. So remember the error.
		k.mu.Lock()
		k.broken = err
		k.mu.Unlock()
		return k.fail("write", err)
	}
	if err := k.storeCheckpoint(safe); err != nil {
		return k.fail("write", err)
	}
	return nil
}

// storeCheckpoint writes a checkpoint that says that the first `safe` bytes are durable. The caller
// holds checking.
func (k *resumableUpload) storeCheckpoint(safe int64) error {
	fi, err := k.file.Stat()
	if err != nil {
		return err
	}
	m := checkpoint{
		seq: k.last.seq + 1, safe: safe, size: min(safe, fi.Size()),
		expected: max(k.c.Size, 0), inode: inode(fi), source: sourceSum(k.c.Source),
	}
	if m.tail, err = tailSum(k.file, m.size); err != nil {
		return err
	}
	if err := k.openCheckpoints(); err != nil {
		return err
	}
	at := int64(m.seq%2) * slotBytes
	err = k.call("checkpoint", func() error {
		_, err := k.checkpoints.WriteAt(m.appendTo(nil), at)
		return err
	})
	if err != nil {
		return err
	}
	k.last = m
	k.mu.Lock()
	k.saved = safe
	k.mu.Unlock()
	return nil
}

// openCheckpoints creates the file for the checkpoints when the first one is to be stored.
func (k *resumableUpload) openCheckpoints() error {
	if k.checkpoints != nil {
		return nil
	}
	create := func() (err error) {
		k.checkpoints, err = k.dir.OpenFile(k.checkpointName(), os.O_RDWR|os.O_CREATE|os.O_EXCL|fileFlags, 0o600)
		if err == nil {
			// If this fails, or a sweep removes the file before it is locked, the upload merely
			// cannot be resumed.
			_, _ = filelock.Try(k.checkpoints)
		}
		return err
	}
	return k.store.durably(k.dir, func() error { return k.call("create", create) })
}

// Commit publishes the file. It removes the checkpoint only after that, because a checkpoint
// without its data does no harm.
func (k *resumableUpload) Commit() error {
	k.checking.Lock()
	defer k.checking.Unlock()
	k.mu.Lock()
	broken := k.broken
	k.mu.Unlock()
	if broken != nil {
		_ = k.dirUpload.Close()
		return k.fail("commit", broken)
	}
	return k.dirUpload.Commit()
}

// Close keeps the data that was written, so that the upload can be resumed. If nothing was written,
// it discards the upload.
func (k *resumableUpload) Close() error {
	k.checking.Lock()
	defer k.checking.Unlock()
	if k.ended() {
		return nil
	}
	k.mu.Lock()
	written, ahead := k.written.prefix, k.written.prefix-k.saved
	k.mu.Unlock()
	var err error
	if ahead > 0 {
		err = k.checkpoint()
	}
	if written == 0 || k.checkpoints == nil { // there is no data to resume from
		if closeErr := k.dirUpload.Close(); err == nil {
			err = closeErr
		}
		return err
	}
	err = cmp.Or(err, k.keep())
	return cmp.Or(err, k.dirUpload.Close())
}

// keep ends the upload, but leaves the temporary file and the checkpoint. It cuts off the data
// after the checkpoint, because that data is not safe, and the upload may never be resumed.
func (k *resumableUpload) keep() error {
	k.dirUpload.mu.Lock()
	defer k.dirUpload.mu.Unlock()
	k.temp, k.after = "", k.closeCheckpoints
	if err := k.cutBehind(k.last.safe); err != nil {
		return k.fail("close", err)
	}
	return nil
}

// Discard ends the upload and removes its data.
func (k *resumableUpload) Discard() error {
	k.checking.Lock()
	defer k.checking.Unlock()
	return k.dirUpload.Close() // this does nothing if the upload has already ended
}

func (k *resumableUpload) ended() bool {
	k.dirUpload.mu.Lock()
	defer k.dirUpload.mu.Unlock()
	return k.done
}

// dropCheckpoints removes the file of the checkpoints. The temporary file has already been removed
// or published.
func (k *resumableUpload) dropCheckpoints() {
	if k.checkpoints == nil {
		return
	}
	k.closeCheckpoints()
	// If this fails, a sweep removes the file later.
	_ = k.call("remove", func() error { return k.dir.Remove(k.checkpointName()) })
}

// lockSoon locks the temporary file. If a sweep holds the lock, it tries again a few times.
func (k *resumableUpload) lockSoon() (locked bool, err error) {
	for range maxLockTries {
		if err := k.store.hook("lock"); err != nil {
			return false, err
		}
		if locked, err = filelock.Try(k.file); err != nil {
			return false, errors.ErrUnsupported
		}
		if locked {
			return true, nil
		}
		time.Sleep(lockEvery)
	}
	return false, nil
}
