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

// maxLockTries and lockEvery are how long a resumed upload waits for a sweep, which
// holds the lock of its file for a moment.
const (
	maxLockTries = 10
	lockEvery    = 20 * time.Millisecond
)

const (
	// maxKeepTries is how often the kept file may be taken away while it is
	// opened.
	maxKeepTries = 8
)

var _ store.Resumer = (*resumableUpload)(nil)

// A resumableUpload is one whose hidden file has a name that the next upload of the
// same file by the same user finds, and a mark beside it that says what of it
// is safe.
//
// All before the mark is durable before the mark moves, and before any of it is
// written anew, the mark moves back. So a machine that dies leaves a mark that
// holds, or an older one.
type resumableUpload struct {
	*dirUpload
	key     string // of both names
	resumed int64

	checking sync.Mutex // held while the mark moves
	marks    *os.File   // checking: nil until the first mark
	last     mark       // checking: the last one stored

	mu      sync.Mutex
	written written // mu
	marked  int64   // mu: last.safe
	broken  error   // mu: the disk has lost something
}

func (k *resumableUpload) dataName() string { return tempname.New(k.key, tempname.Keep) }
func (k *resumableUpload) markName() string { return tempname.New(k.key, tempname.Mark) }

// resume opens what an upload left, or begins a new one, in u, which has its
// directory and its base. It returns errors.ErrUnsupported if there are no locks
// to distinguish an upload that has died from one under way.
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
			u.after = k.dropMarks
			return k, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%d times in turn the hidden file was taken away", maxKeepTries)
}

// openKept opens and locks a file that was kept, if there is one.
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
	case errors.Is(err, store.ErrNotRegular): // not made by an upload
		return false, k.dir.Remove(k.dataName())
	case errors.Is(err, fs.ErrPermission):
		// A Commit may have been cut short that had made it read-only.
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

// lockKept locks the hidden file. It reports false if that has lost its name.
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

// restore takes over what is safe of the file that was kept, and cuts off the
// rest. It reports false if the file is not to be trusted.
func (k *resumableUpload) restore() bool {
	fi, err := k.file.Stat()
	if err != nil || !k.owned(fi) {
		return false
	}
	f, err := openRegular(k.dir, k.markName(), os.O_RDWR)
	if err != nil {
		return false
	}
	m, ok := readMark(f)
	markInfo, err := f.Stat()
	if locked, lockErr := filelock.Try(f); err != nil || lockErr != nil || !locked || !ok || !k.owned(markInfo) {
		_ = f.Close()
		return false
	}
	k.marks, k.last = f, m
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
	_ = k.file.Chmod(0o600) // Commit may have come as far as to open it to others
	k.temp = k.dataName()
	k.resumed, k.marked, k.written.prefix = m.safe, m.safe, m.safe
	k.end, k.data = m.safe, m.safe
	return true
}

// owned reports whether a hidden file is this process's, and has no other name:
// one whose Commit was cut short may be published already.
func (k *resumableUpload) owned(fi fs.FileInfo) bool {
	if d, ok := store.DetailsOf(fi); ok && (d.Links != 1 || int(d.UID) != os.Geteuid()) {
		return false
	}
	named, err := k.dir.Lstat(k.base)
	return err != nil || !os.SameFile(named, fi)
}

// createKept creates the hidden file, once the mark of an earlier one is gone
// for good. A file that was found is not to be trusted, or not ours, so it is
// removed and never written to.
func (k *resumableUpload) createKept(found bool) error {
	if found {
		if err := k.forget(); err != nil {
			return err
		}
	}
	err := k.store.durably(k.dir, func() error {
		return k.call("remove", func() error { return k.dir.Remove(k.markName()) })
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
		err = fs.ErrExist // a sweep took it: look again
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, store.ErrBusy) {
		k.temp = "" // not ours to remove
	}
	return err
}

// forget closes what was opened and removes it.
func (k *resumableUpload) forget() error {
	k.closeMarks()
	_ = k.file.Close()
	k.file, k.temp, k.last = nil, "", mark{}
	err := k.call("remove", func() error { return k.dir.Remove(k.dataName()) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (k *resumableUpload) closeMarks() {
	if k.marks != nil {
		_ = k.marks.Close()
		k.marks = nil
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

// note notes what was written, and reports whether the mark should move.
func (k *resumableUpload) note(off int64, n int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n > 0 {
		k.written.add(off, off+int64(n))
	}
	return k.written.prefix-k.marked >= k.store.checkpoint && k.broken == nil
}

// rewrite writes what was written before. As the mark may not cover what is not
// durable, it moves back first.
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

// moveBack moves the mark to no more than safe, for good. The caller holds
// checking.
func (k *resumableUpload) moveBack(safe int64) error {
	if k.marks == nil || k.last.safe <= safe {
		return nil
	}
	if err := k.mark(safe); err != nil {
		return err
	}
	return k.call("sync", func() error { return datasync(k.marks) })
}

// checkpoint makes durable what was written without a gap, and then says so.
// The caller holds checking.
func (k *resumableUpload) checkpoint() error {
	k.mu.Lock()
	safe, err := k.written.prefix, k.broken
	k.mu.Unlock()
	if err == nil {
		err = k.call("datasync", func() error { return datasync(k.file) })
	}
	if err != nil {
		// The kernel reports an error once. A later sync would not find what it lost.
		k.mu.Lock()
		k.broken = err
		k.mu.Unlock()
		return k.fail("write", err)
	}
	if err := k.mark(safe); err != nil {
		return k.fail("write", err)
	}
	return nil
}

// mark stores that so many bytes are safe. The caller holds checking.
func (k *resumableUpload) mark(safe int64) error {
	fi, err := k.file.Stat()
	if err != nil {
		return err
	}
	m := mark{
		seq: k.last.seq + 1, safe: safe, size: min(safe, fi.Size()),
		expected: max(k.c.Size, 0), inode: inode(fi), source: sourceSum(k.c.Source),
	}
	if m.tail, err = tailSum(k.file, m.size); err != nil {
		return err
	}
	if err := k.openMarks(); err != nil {
		return err
	}
	at := int64(m.seq%2) * markSlot
	err = k.call("mark", func() error {
		_, err := k.marks.WriteAt(m.appendTo(nil), at)
		return err
	})
	if err != nil {
		return err
	}
	k.last = m
	k.mu.Lock()
	k.marked = safe
	k.mu.Unlock()
	return nil
}

// openMarks creates the file of the marks, once there is something to say.
func (k *resumableUpload) openMarks() error {
	if k.marks != nil {
		return nil
	}
	create := func() (err error) {
		k.marks, err = k.dir.OpenFile(k.markName(), os.O_RDWR|os.O_CREATE|os.O_EXCL|fileFlags, 0o600)
		if err == nil {
			_, _ = filelock.Try(k.marks) // a sweep in between costs the resumption
		}
		return err
	}
	return k.store.durably(k.dir, func() error { return k.call("create", create) })
}

// Commit publishes the file. The mark goes last: alone it means nothing.
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

// Close keeps what was written, if there is any.
func (k *resumableUpload) Close() error {
	k.checking.Lock()
	defer k.checking.Unlock()
	if k.ended() {
		return nil
	}
	k.mu.Lock()
	written, ahead := k.written.prefix, k.written.prefix-k.marked
	k.mu.Unlock()
	var err error
	if ahead > 0 {
		err = k.checkpoint()
	}
	if written == 0 || k.marks == nil { // there is nothing to resume from
		if closeErr := k.dirUpload.Close(); err == nil {
			err = closeErr
		}
		return err
	}
	err = cmp.Or(err, k.keep())
	return cmp.Or(err, k.dirUpload.Close())
}

// keep lets both files stay when the upload ends, without what was written ahead
// of a gap: that is not safe, and the upload may never be resumed.
func (k *resumableUpload) keep() error {
	k.dirUpload.mu.Lock()
	defer k.dirUpload.mu.Unlock()
	k.temp, k.after = "", k.closeMarks
	if err := k.cutBehind(k.last.safe); err != nil {
		return k.fail("close", err)
	}
	return nil
}

// Discard ends the upload and keeps nothing.
func (k *resumableUpload) Discard() error {
	k.checking.Lock()
	defer k.checking.Unlock()
	return k.dirUpload.Close() // which does nothing if it has ended
}

func (k *resumableUpload) ended() bool {
	k.dirUpload.mu.Lock()
	defer k.dirUpload.mu.Unlock()
	return k.done
}

// dropMarks removes the marks, after the data they are about.
func (k *resumableUpload) dropMarks() {
	if k.marks == nil {
		return
	}
	k.closeMarks()
	// If this fails, a sweep removes it.
	_ = k.call("remove", func() error { return k.dir.Remove(k.markName()) })
}

// lockSoon locks the hidden file, with a little patience.
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
