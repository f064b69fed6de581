package localdir

import (
	"cmp"
	"io/fs"
	"os"
	"time"

	"github.com/haul-project/haul/store"
)

// specialBits are the bits of a mode that give a file or a directory powers
// beyond those of its permission bits.
const specialBits = fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// newMode returns the mode for what fi describes, or for a new file if fi is nil,
// when a client wants another.
// Without special bits, a directory keeps its special bits: they are how an
// administrator shares it with a group. A file loses them.
func newMode(fi fs.FileInfo, want fs.FileMode, special bool) fs.FileMode {
	switch {
	case special:
		return want & (fs.ModePerm | specialBits)
	case fi != nil && fi.IsDir():
		return want.Perm() | fi.Mode()&specialBits
	}
	return want.Perm()
}

// timed reports whether a changes a time.
func timed(a store.Attr) bool { return !a.AccessTime.IsZero() || !a.ModTime.IsZero() }

// owner returns the numbers for chown(2), which leaves what is -1.
func owner(a store.Attr) (uid, gid int) {
	uid, gid = -1, -1
	if a.UID != nil {
		uid = int(*a.UID)
	}
	if a.GID != nil {
		gid = int(*a.GID)
	}
	return uid, gid
}

// isRoot reports whether fi describes the root, by whatever name.
func (p *pathCalls) isRoot(fi fs.FileInfo) bool {
	if !fi.IsDir() {
		return false
	}
	root, err := p.root.Lstat(".")
	return err == nil && os.SameFile(fi, root)
}

// A target is what change changes: an open file, or what a name leads to.
type target struct {
	calls    *calls
	special  bool // its setuid, setgid and sticky bits may change
	stat     func() (fs.FileInfo, error)
	truncate func(size int64) error
	chmod    func(mode fs.FileMode) error
	chtimes  func(atime, mtime time.Time) error
	chown    func(uid, gid int) error
}

// change changes what a says, the owner last: a new owner may be the only one who
// may change the rest. Each change is tried, whatever becomes of the others; the error
// is the first.
func (t target) change(a store.Attr) (first error) {
	note := func(err error) { first = cmp.Or(first, err) }
	chmod := func() error {
		fi, err := t.stat() // a new owner may have cost it some bits
		if err != nil {
			return err
		}
		return t.calls.call("chmod", func() error { return t.chmod(newMode(fi, *a.Mode, t.special)) })
	}
	if a.Size != nil {
		note(t.calls.call("truncate", func() error { return t.truncate(*a.Size) }))
	}
	if a.Mode != nil {
		note(chmod())
	}
	if timed(a) {
		note(t.calls.call("chtimes", func() error { return t.chtimes(a.AccessTime, a.ModTime) }))
	}
	if !a.ChangesOwner() {
		return first
	}
	uid, gid := owner(a)
	err := t.calls.call("chown", func() error { return t.chown(uid, gid) })
	note(err)
	if err == nil && a.Mode != nil && t.special && *a.Mode&specialBits != 0 {
		note(chmod()) // the system takes setuid and setgid from what changes hands
	}
	return first
}
