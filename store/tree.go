package store

import (
	"context"
	"io"
	"io/fs"
	"time"
)

// A Tree is a [Store] whose names can be listed and changed. An SFTP server serves a Tree. Any
// goroutine may call its methods.
//
// Names are looked up as in POSIX: symbolic links among the directories of a name are followed.
// Open, Stat, Create, OpenFile, OpenDir and ReadDir also follow a symbolic link at the end of the
// name, and SetAttr does so on request. The other methods act on the link itself. No name and no
// link leads out of the tree. The error for one that tries is always the same, so it does not
// reveal what exists outside.
//
// The root, ".", cannot be removed, renamed, or created again, and clients cannot change its mode
// or its owner.
//
// A call that fails changes nothing, except for [Tree.SetAttr], which may change several
// attributes. A call that a store does not support returns errors.ErrUnsupported.
type Tree interface {
	Store

	// Lstat describes a name, without following a symbolic link.
	Lstat(ctx context.Context, name string) (fs.FileInfo, error)

	// ReadDir returns the entries of a directory, sorted by name; the root is ".". A symbolic link
	// is described as a link; call Stat to describe its target. Uploads in progress are not listed.
	// If the name is not a directory, ReadDir returns fs.ErrNotExist. A directory of more than
	// 65536 entries is an error, because the list is held in memory.
	ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error)

	// OpenDir opens a directory of any size, to be listed in pieces. If the name is not a
	// directory, OpenDir returns fs.ErrNotExist. A store may make the Entries unusable when ctx
	// ends.
	OpenDir(ctx context.Context, name string) (Entries, error)

	// OpenFile opens a regular file to be read and written in place, or creates one in an existing
	// directory. Use it if written data has to be visible at once; for whole files, Create is
	// better. A store may make the Handle unusable when ctx ends.
	OpenFile(ctx context.Context, name string, a Access) (Handle, error)

	// Mkdir makes a directory in an existing one. perm holds its permission bits, which are set
	// exactly, regardless of the umask; 0 means 0o755.
	Mkdir(ctx context.Context, name string, perm fs.FileMode) error

	// Remove removes a file or a symbolic link. For a directory it returns [ErrNotRegular].
	Remove(ctx context.Context, name string) error

	// RemoveDir removes a directory. It returns fs.ErrExist if the directory has entries, and
	// fs.ErrNotExist if the name is not a directory.
	RemoveDir(ctx context.Context, name string) error

	// Rename changes a name from "from" to "to". Without replace, it returns fs.ErrExist if the
	// name "to" is taken, even by the same file. With replace, it does what rename(2) does in
	// POSIX: a file replaces a file in one step, and, if the system supports that, a directory
	// replaces an empty directory. If anything else has the name "to", Rename returns fs.ErrExist.
	// If both are names of the same file, both remain. Moving a directory below itself returns
	// fs.ErrInvalid.
	Rename(ctx context.Context, from, to string, replace bool) error

	// Link gives the file "from" the additional name "to". For a directory it returns
	// fs.ErrPermission, as a directory can have only one name. If "from" is a symbolic link, the
	// link itself gets the name.
	Link(ctx context.Context, from, to string) error

	// Symlink creates a symbolic link of that name. target is the text of the link. It is stored
	// unchanged and may point anywhere, because the tree confines links only when it follows them;
	// so users who see the tree as "/" can upload their files together with the links. The text has
	// at most 4096 bytes, and no NUL.
	Symlink(ctx context.Context, target, name string) error

	// Readlink returns the text of a symbolic link. For anything else it returns fs.ErrInvalid.
	Readlink(ctx context.Context, name string) (string, error)

	// SetAttr changes attributes. With follow, it follows a symbolic link. Without, it changes the
	// link itself; setting the size or the mode of a link returns errors.ErrUnsupported, as links
	// have neither. See [Attr].
	SetAttr(ctx context.Context, name string, a Attr, follow bool) error

	// Space returns the size and the free space of the file system that the name is on.
	Space(ctx context.Context, name string) (Space, error)
}

// Access says how [Tree].OpenFile opens a file. At least one of Read, Write and Append must be set.
// Create, Exclusive and Truncate need Write or Append, and Exclusive needs Create. For any other
// combination OpenFile returns fs.ErrInvalid.
type Access struct {
	Read  bool
	Write bool

	// Append makes each WriteAt write at the end of the file and ignore its offset. Concurrent
	// appends do not overwrite each other.
	Append bool

	// Create creates the file if it is missing. Its directory must exist.
	Create bool

	// Exclusive makes OpenFile fail if the name exists, even as a symbolic link.
	Exclusive bool

	// Truncate empties an existing file when it is opened.
	Truncate bool

	// Perm holds the permission bits of a new file; 0 means 0o644. They are set exactly, regardless
	// of the umask. The creator of a file may use the new Handle as Access says, even if Perm does
	// not allow that.
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

// A Handle is a file that is open in place, in the way that [Access] says. Written data is visible
// at once under the file's name, and through every other Handle of the file. It need not be visible
// through a [File] that [Store].Open returned. The Handle stays valid after the name has been given
// to another file.
//
// A method that the Access does not allow returns fs.ErrPermission. Any goroutine may call the
// methods.
type Handle interface {
	// Reading needs [Access].Read. Stat and Close work with any Access.
	File

	// WriteAt stores p at off or, with [Access].Append, at the end of the file. If off is beyond
	// the end, the gap is filled with zeros.
	io.WriterAt

	// Truncate sets the size, in bytes: it cuts the file, or adds zeros.
	Truncate(size int64) error

	// SetAttr changes attributes. Setting the size needs [Access].Write, as Truncate does. Setting
	// the other attributes works with any Access, if the system permits it.
	SetAttr(a Attr) error

	// Sync makes all written data durable.
	Sync() error
}

// Entries is an open directory that is listed in pieces.
type Entries interface {
	// Next fills into with descriptions of the next entries, in no particular order, and returns
	// how many these are. After the last entry it returns io.EOF. It omits ".", ".." and uploads in
	// progress, and describes a symbolic link as a link. An entry that is added or removed during
	// the listing may or may not be listed. If an entry cannot be described, Next returns only its
	// name, with the mode [fs.ModeIrregular].
	//
	// Only one goroutine at a time may call Next.
	Next(into []fs.FileInfo) (int, error)
	io.Closer
}

// Space is the size and the free space of a file system, as in statvfs(3), but in bytes.
type Space struct {
	Total     int64 // bytes
	Free      int64 // bytes
	Available int64 // the part of Free that ordinary users may use
	BlockSize int64 // bytes; Total, Free and Available are multiples of it

	Files          int64 // the largest number of files that the file system can hold; 0 means no limit
	FreeFiles      int64
	AvailableFiles int64 // the part of FreeFiles that ordinary users may use

	MaxName  int    // the longest allowed element of a name, in bytes
	ID       uint64 // identifies the file system, if it has an identifier
	ReadOnly bool
}

// Attr lists the attributes that [Tree.SetAttr] changes. A nil pointer or a zero time leaves its
// attribute unchanged. SetAttr tries each attribute, even after another has failed, and returns the
// first error. It sets the size first, so that it can still cut a file that becomes read-only; then
// the mode, the times, and the owner. Only an impossible value, such as a negative size, prevents
// all changes.
type Attr struct {
	// Size is in bytes. It can be set for regular files only: a smaller size cuts the file, a
	// larger one adds zeros.
	Size *int64

	// UID and GID are the numbers of the owner and the group. Changing them requires the privileges
	// that the operating system demands.
	UID, GID *uint32

	// Mode holds the permission bits; 0 is a valid value. The setuid, setgid and sticky bits are
	// ignored unless the store says otherwise.
	Mode *fs.FileMode

	AccessTime, ModTime time.Time
}

// Check returns fs.ErrInvalid if a contains an impossible value, such as a negative size.
func (a Attr) Check() error {
	if a.Size != nil && *a.Size < 0 {
		return fs.ErrInvalid
	}
	return nil
}

// ChangesOwner reports whether a changes the owner or the group.
func (a Attr) ChangesOwner() bool { return a.UID != nil || a.GID != nil }

// Details describes a file further, in addition to its [fs.FileInfo].
type Details struct {
	UID, GID   uint32
	Links      uint64 // how many names (hard links) the file has
	AccessTime time.Time
}

// DetailsOf returns the details of a file that a store described. It returns false if the store
// provided no details, or if they are not available on this system.
func DetailsOf(fi fs.FileInfo) (Details, bool) {
	if d, ok := fi.Sys().(Details); ok {
		return d, true
	}
	return systemDetails(fi)
}

// A Birth distinguishes a file from an earlier one with the same inode number. Births can be
// compared with ==. It is zero if the system does not record when files were created. See
// [Capabilities].Birth.
type Birth struct {
	Device, Inode uint64
	At            int64 // when the file was created, in Unix nanoseconds
}
