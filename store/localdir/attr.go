package localdir

import (
	"cmp"
	"io/fs"
	"os"
	"time"

	"github.com/haul-project/haul/store"
)

// specialBits are the mode bits that have special effects: setuid, setgid and sticky.
const specialBits = fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// newMode returns the mode to set if a client requests the mode `want`. fi describes the file or
// directory; it is nil for a new file. With `special`, the special bits are taken from `want`.
// Otherwise a directory keeps its special bits, because administrators use them to share a
// directory with a group, and a file loses them.
func newMode(fi fs.FileInfo, want fs.FileMode, special bool) fs.FileMode {
	switch {
	case special:
		return want & (fs.ModePerm | specialBits)
	case fi != nil && fi.IsDir():
		return want.Perm() | fi.Mode()&specialBits
	}
	return want.Perm()
}

// timed reports whether a sets a time.
func timed(a store.Attr) bool { return !a.AccessTime.IsZero() || !a.ModTime.IsZero() }

// owner returns the arguments for chown(2). -1 leaves the owner or the group unchanged.
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

// isRoot reports whether fi describes the store's root, by whichever name it was reached.
func (p *pathCalls) isRoot(fi fs.FileInfo) bool {
	if !fi.IsDir() {
		return false
	}
	root, err := p.root.Lstat(".")
	return err == nil && os.SameFile(fi, root)
}

// A target holds the functions that change the attributes of one file: either of an open file, or
// of the file that a name leads to.
type target struct {
	calls    *calls
	special  bool // the setuid, setgid and sticky bits may be changed
	stat     func() (fs.FileInfo, error)
	truncate func(size int64) error
	chmod    func(mode fs.FileMode) error
	chtimes  func(atime, mtime time.Time) error
	chown    func(uid, gid int) error
}

// change sets the attributes in a. It sets the owner last, because after that only the new owner
// may be allowed to change the rest. It tries each change, even after others have failed, and
// returns the first error.
func (t target) change(a store.Attr) (first error) {
	note := func(err error) { first = cmp.Or(first, err) }
	chmod := func() error {
		fi, err := t.stat() // read the mode again, as changing the owner may have cleared some bits
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
		note(chmod()) // again, because the system clears setuid and setgid when the owner changes
	}
	return first
}
