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
// Names are looked up as in POSIX: symbolic links among the directories of a name
// are followed. A symbolic link at the end of the name is followed by Open, Stat, Create,
// OpenFile, OpenDir and ReadDir, and by SetAttr on demand; the other methods mean the link
// itself. No name and no link leads out of the tree; the error is the same
// whatever is there.
//
// The root, ".", cannot be removed, renamed, or made again, and clients cannot change
// its mode and its owner.
//
// A call that fails changes nothing, except for [Tree.SetAttr], which has several
// things to change. A call that a store does not support is errors.ErrUnsupported.
type Tree interface {
	Store

	// Lstat describes a name, without following a symbolic link.
	Lstat(ctx context.Context, name string) (fs.FileInfo, error)

	// ReadDir returns the entries of a directory, sorted by name; the
	// root is ".". A symbolic link is described as a link, and Stat describes what it
	// leads to. Uploads under way are not listed. A name that is no directory is
	// fs.ErrNotExist; a directory of more than 65536 entries is an error, as the list is held
	// in memory.
	ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error)

	// OpenDir opens a directory of any size to be listed in pieces.
	// A name that is no directory is fs.ErrNotExist. A store may end the Entries
	// when ctx ends.
	OpenDir(ctx context.Context, name string) (Entries, error)

	// OpenFile opens a regular file to be read and written in place, or
	// creates one in a directory that exists. It is for callers that must see at
	// once what was written; for whole files Create is better. A store may end
	// the Handle when ctx ends.
	OpenFile(ctx context.Context, name string, a Access) (Handle, error)

	// Mkdir makes a directory in one that exists. perm holds its permission
	// bits, set exactly, whatever the umask; 0 means 0o755.
	Mkdir(ctx context.Context, name string, perm fs.FileMode) error

	// Remove removes a file or a symbolic link. A directory is [ErrNotRegular].
	Remove(ctx context.Context, name string) error

	// RemoveDir removes a directory. One that has entries is fs.ErrExist,
	// and a name that is no directory fs.ErrNotExist.
	RemoveDir(ctx context.Context, name string) error

	// Rename changes a name from from to to. Without replace, a
	// name that is taken, even by the same file, is fs.ErrExist. With replace
	// it is rename(2) of POSIX: a file takes the place of a file in one step,
	// and a directory that of an empty one where the system supports that;
	// other things in the way are fs.ErrExist. Two names of one file both
	// stay. A directory cannot move below itself: fs.ErrInvalid.
	Rename(ctx context.Context, from, to string, replace bool) error

	// Link gives a file a second name, to. Directories can have only one:
	// fs.ErrPermission. A symbolic link is not followed.
	Link(ctx context.Context, from, to string) error

	// Symlink makes a symbolic link of that name. target is its text, kept
	// unchanged, and may lead anywhere: only following it is confined. So a tree
	// that is served as "/", and that its users see as such, can be uploaded with its
	// links. The text has at most 4096 bytes, without a NUL.
	Symlink(ctx context.Context, target, name string) error

	// Readlink returns the text of a symbolic link. Anything else is
	// fs.ErrInvalid.
	Readlink(ctx context.Context, name string) (string, error)

	// SetAttr changes attributes. With follow it follows a symbolic link; without, it changes
	// the link itself, which has no size and no mode: errors.ErrUnsupported. See [Attr].
	SetAttr(ctx context.Context, name string, a Attr, follow bool) error

	// Space returns how much room the file system of the name has.
	Space(ctx context.Context, name string) (Space, error)
}

// Access says how [Tree].OpenFile opens a file. At least one of Read, Write and
// Append must be set; Create, Exclusive and Truncate need Write or Append,
// and Exclusive needs Create. Any other combination is fs.ErrInvalid.
type Access struct {
	Read  bool
	Write bool

	// Append is Write at the end: the offsets given to WriteAt are
	// ignored, and concurrent appends do not overwrite each other.
	Append bool

	// Create makes a file that is missing. The directory must exist.
	Create bool

	// Exclusive refuses a name that exists, including a symbolic link.
	Exclusive bool

	// Truncate empties the file first.
	Truncate bool

	// Perm holds the permission bits of a new file; 0 means 0o644. They are
	// set exactly, whatever the umask. Whoever creates a file may use it
	// as Access says, whatever Perm allows.
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

// A Handle is a file open in place, as [Access] says: what is written is visible at
// once under its name, and to all that opened it in place, though not
// necessarily to a [File] that [Store].Open returned. It stays open after the name
// has gone to another file.
//
// A use that the Access does not include is an fs.ErrPermission. Any goroutine may
// call its methods.
type Handle interface {
	// Reading needs [Access].Read, while Stat and Close need no Access.
	File

	// WriteAt stores p at off, or at the end with [Access].Append. Beyond the
	// end it leaves zeros between.
	io.WriterAt

	// Truncate sets the size, in bytes: it cuts, or adds zeros.
	Truncate(size int64) error

	// SetAttr changes attributes. The size needs [Access].Write, like Truncate; the
	// others need no Access, only the system's permission.
	SetAttr(a Attr) error

	// Sync makes durable what was written.
	Sync() error
}

// Entries is an open directory.
type Entries interface {
	// Next describes the next entries, in no particular order, and returns
	// how many; after the last it returns io.EOF. "." and ".." and uploads under way are not
	// among them, and a symbolic link is described as a link.
	// An entry that comes or goes meanwhile is listed or not. An entry that cannot be
	// described has its name and [fs.ModeIrregular] alone.
	//
	// One goroutine at a time may call Next.
	Next(into []fs.FileInfo) (int, error)
	io.Closer
}

// Space says how much room a store has, as statvfs(3) does, but in bytes.
type Space struct {
	Total     int64 // bytes
	Free      int64 // bytes
	Available int64 // of the free bytes, those not reserved for the system's administrator
	BlockSize int64 // bytes; the others are multiples of it

	Files          int64 // files that the store can hold, the present ones included; 0 for no limit
	FreeFiles      int64
	AvailableFiles int64 // not reserved for the administrator

	MaxName  int    // bytes of one element of a name
	ID       uint64 // of the file system, if it has one
	ReadOnly bool
}

// Attr is what [Tree.SetAttr] changes. A nil pointer or a zero time leaves its
// attribute unchanged. Each attribute is tried, even after another has failed, and the
// error is the first. The order is: the size, so that a file which becomes read-only can still
// be cut, the mode, the times, and the owner. Only an impossible value, such as
// a size below zero, changes nothing.
type Attr struct {
	// Size in bytes, of regular files only: a smaller size cuts the file, a larger one
	// adds zeros.
	Size *int64

	// UID and GID are the numbers of the owner and the group. Changing them takes the
	// privileges that the operating system asks for.
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
	Links      uint64 // names that the file has
	AccessTime time.Time
}

// DetailsOf returns the details of a file that a store described. It returns
// false if there are none, or the system is not known to have them.
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
