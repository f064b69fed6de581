package store

import (
	"context"
	"io"
	"io/fs"
	"time"
)

// A Tree is a [Store] whose names can be listed and changed: an SFTP
// server serves one. Any goroutine may call its methods.
//
// Names are looked up as in POSIX: symbolic links among the directories of a name are followed.
// Open, Stat, Create, OpenFile, OpenDir and ReadDir also follow a symbolic link at the end of the
// name, and SetAttr does so on demand; the other methods act on the link itself. No name and no
// link leads out of the tree; the error is the same, whatever exists outside.
//
// The root, ".", cannot be removed, renamed, or made again, and clients cannot change its mode or
// its owner.
//
// A call that fails changes nothing, except for [Tree.SetAttr], which may change several
// attributes. A call that a store does not support returns errors.ErrUnsupported.
type Tree interface {
	Store

	// Lstat describes a name, without following a symbolic link.
	Lstat(ctx context.Context, name string) (fs.FileInfo, error)

	// ReadDir returns the entries of a directory, sorted by name; the root is ".". It describes a
	// symbolic link as a link; use Stat to describe its target. Uploads under way are not listed. A
	// name that is not a directory is fs.ErrNotExist. A directory of more than 65536 entries is an
	// error, as the list is held in memory.
	ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error)

	// OpenDir opens a directory of any size, to be listed in pieces. A name that is not a directory
	// is fs.ErrNotExist. A store may end the Entries when ctx ends.
	OpenDir(ctx context.Context, name string) (Entries, error)

	// OpenFile opens a regular file to be read and written in place, or creates one in an existing
	// directory. It is for callers that need written data to be visible at once; for whole files,
	// Create is better. A store may end the Handle when ctx ends.
	OpenFile(ctx context.Context, name string, a Access) (Handle, error)

	// Mkdir makes a directory in an existing one. perm holds its permission bits, set exactly,
	// whatever the umask; 0 means 0o755.
	Mkdir(ctx context.Context, name string, perm fs.FileMode) error

	// Remove removes a file or a symbolic link. A directory is [ErrNotRegular].
	Remove(ctx context.Context, name string) error

	// RemoveDir removes a directory. It returns fs.ErrExist if the directory has entries, and
	// fs.ErrNotExist if the name is not a directory.
	RemoveDir(ctx context.Context, name string) error

	// Rename changes a name from "from" to "to". Without replace, it returns fs.ErrExist if the new
	// name is taken, even by the same file. With replace it is rename(2) of POSIX: a file replaces
	// a file in one step, and a directory replaces an empty directory where the system supports
	// that; if anything else has the new name, Rename returns fs.ErrExist. If both are names of one
	// file, both stay. A directory cannot be moved below itself: that returns fs.ErrInvalid.
	Rename(ctx context.Context, from, to string, replace bool) error

	// Link gives a file a second name, to. A directory can have only one name: for it, Link returns
	// fs.ErrPermission. A symbolic link is not followed.
	Link(ctx context.Context, from, to string) error

	// Symlink makes a symbolic link of that name. target is its text, which is kept unchanged and
	// may point anywhere, since links are confined only when they are followed. So a user who sees
	// a tree as "/" can upload it with its links. The text has at most 4096 bytes, and no NUL.
	Symlink(ctx context.Context, target, name string) error

	// Readlink returns the text of a symbolic link. For anything else it returns fs.ErrInvalid.
	Readlink(ctx context.Context, name string) (string, error)

	// SetAttr changes attributes. With follow it follows a symbolic link. Without, it changes the
	// link itself, which has neither size nor mode: setting those returns errors.ErrUnsupported.
	// See [Attr].
	SetAttr(ctx context.Context, name string, a Attr, follow bool) error

	// Space returns how much room there is on the file system that the name is on.
	Space(ctx context.Context, name string) (Space, error)
}

// Access says how [Tree].OpenFile opens a file. At least one of Read, Write and
// Append must be set; Create, Exclusive and Truncate need Write or Append,
// and Exclusive needs Create. Any other combination is fs.ErrInvalid.
type Access struct {
	Read  bool
	Write bool

	// Append means that each WriteAt writes at the end of the file and ignores its offset.
	// Concurrent appends do not overwrite each other.
	Append bool

	// Create creates the file if it is missing. The directory must exist.
	Create bool

	// Exclusive refuses a name that exists, including a symbolic link.
	Exclusive bool

	// Truncate empties the file first.
	Truncate bool

	// Perm holds the permission bits of a new file; 0 means 0o644. They are set exactly, whatever
	// the umask. The creator of a file may use it as Access says, even if Perm does not allow that.
	Perm fs.FileMode
}

// Writes reports whether the file may be changed.
func (a Access) Writes() bool { return a.Write || a.Append }

// Check returns fs.ErrInvalid unless a is a valid combination.
func (a Access) Check() error {
	switch {
	case !a.Read && !a.Writes(),
		!a.Writes() && (a.Create || a.Exclusive || a.Truncate),
		a.Exclusive && !a.Create:
		return fs.ErrInvalid
	}
	return nil
}

// A Handle is a file that is open in place, as [Access] says. Written data is visible at once under
// the name, and through every other Handle of the file, though not necessarily through a [File]
// that [Store].Open returned. The Handle stays valid after the name has been given to another file.
//
// A use that the Access does not include returns fs.ErrPermission. Any goroutine may call the
// methods.
type Handle interface {
	// Reading needs [Access].Read, while Stat and Close need no Access.
	File

	// WriteAt stores p at off, or at the end with [Access].Append. A gap between the old end and
	// off is filled with zeros.
	io.WriterAt

	// Truncate sets the size, in bytes: it cuts the file, or adds zeros.
	Truncate(size int64) error

	// SetAttr changes attributes. The size needs [Access].Write, like Truncate; the
	// others need no Access, only the system's permission.
	SetAttr(a Attr) error

	// Sync makes all written data durable.
	Sync() error
}

// Entries is an open directory, which is listed in pieces.
type Entries interface {
	// Next describes the next entries, in no particular order, and returns their number; after the
	// last one it returns io.EOF. It omits ".", ".." and uploads under way, and describes a
	// symbolic link as a link. An entry that is added or removed meanwhile may be listed or not.
	// For an entry that cannot be described, it returns only the name and [fs.ModeIrregular].
	//
	// One goroutine at a time may call Next.
	Next(into []fs.FileInfo) (int, error)
	io.Closer
}

// Space is the room of a store, as in statvfs(3), but in bytes.
type Space struct {
	Total     int64 // bytes
	Free      int64 // bytes
	Available int64 // the part of Free that is not reserved for the administrator
	BlockSize int64 // bytes; the others are multiples of it

	Files          int64 // the most files that the store can hold; 0 for no limit
	FreeFiles      int64
	AvailableFiles int64 // not reserved for the administrator

	MaxName  int    // bytes of one element of a name
	ID       uint64 // of the file system, if it has one
	ReadOnly bool
}

// Attr lists the attributes that [Tree.SetAttr] changes. A nil pointer or a zero time leaves its
// attribute unchanged. SetAttr tries each attribute, even after another has failed, and returns the
// first error. The order is: the size (so that a file which becomes read-only can still be cut),
// the mode, the times, and the owner. Only an impossible value, such as a negative size, prevents
// all changes.
type Attr struct {
	// Size is in bytes, and applies to regular files only: a smaller size cuts the file, a larger
	// one adds zeros.
	Size *int64

	// UID and GID are the numbers of the owner and the group. Changing them requires the privileges
	// that the operating system asks for.
	UID, GID *uint32

	// Mode holds the permission bits; 0 is valid. The setuid,
	// setgid and sticky bits are ignored unless the store says otherwise.
	Mode *fs.FileMode

	AccessTime, ModTime time.Time
}

// Check returns fs.ErrInvalid if no file can have such attributes.
func (a Attr) Check() error {
	if a.Size != nil && *a.Size < 0 {
		return fs.ErrInvalid
	}
	return nil
}

// ChangesOwner reports whether a changes the owner or the group.
func (a Attr) ChangesOwner() bool { return a.UID != nil || a.GID != nil }

// Details describe a file in addition to its [fs.FileInfo].
type Details struct {
	UID, GID   uint32
	Links      uint64 // number of names of the file
	AccessTime time.Time
}

// DetailsOf returns the details of a file that a store described. It returns false if the store
// gave none, or if they are not available on this system.
func DetailsOf(fi fs.FileInfo) (Details, bool) {
	if d, ok := fi.Sys().(Details); ok {
		return d, true
	}
	return systemDetails(fi)
}

// A Birth distinguishes a file from an earlier one with the same inode. It is
// comparable, and zero if the system has none. See [Capabilities].Birth.
type Birth struct {
	Device, Inode uint64
	At            int64 // Unix nanoseconds
}
