package store

import (
	"context"
	"io"
	"io/fs"
)

// A Tree is a [Store] whose names can be listed and changed: what an SFTP
// server serves. Any goroutine may call its methods.
//
// A name is looked up as POSIX does it: symbolic links among its directories
// are followed, and at its end by Open, Stat, Create, OpenFile, OpenDir and
// ReadDir, and by SetAttr if it shall. All others mean what has the name
// itself. No name and no link leads out of the tree; the error is the same
// whatever is there.
//
// The root, ".", cannot be removed, renamed, or made again; nor can clients change
// its mode and its owner.
//
// A call that fails changes nothing, but for [Tree.SetAttr], which has several
// things to change. A call that a store does not support is errors.ErrUnsupported.
type Tree interface {
	Store
	Lister

	// Lstat describes what has the name, even if that is a symbolic link.
	Lstat(ctx context.Context, name string) (fs.FileInfo, error)

	// OpenDir opens a directory to be listed in pieces, however large it is.
	// A name of no directory is fs.ErrNotExist. A store may end the Entries
	// when ctx ends.
	OpenDir(ctx context.Context, name string) (Entries, error)

	// OpenFile opens a regular file to be read and written where it is, or
	// creates one in a directory that exists. It is for callers that must see at
	// once what was written; for whole files Create is better. A store may end
	// the Handle when ctx ends.
	OpenFile(ctx context.Context, name string, a Access) (Handle, error)

	// Mkdir makes a directory in one that exists. perm holds its permission
	// bits, set exactly, whatever the umask; 0 means 0o755.
	Mkdir(ctx context.Context, name string, perm fs.FileMode) error

	// Remove removes what has the name. A directory is [ErrNotRegular].
	Remove(ctx context.Context, name string) error

	// RemoveDir removes a directory. One that has entries is fs.ErrExist,
	// and what is no directory fs.ErrNotExist.
	RemoveDir(ctx context.Context, name string) error

	// Rename gives what has the name from the name to. Without replace, a
	// name that is taken, even by the same file, is fs.ErrExist. With replace
	// it is rename(2) of POSIX: a file takes the place of a file in one step,
	// and a directory that of an empty one where the system can do that;
	// other things in the way are fs.ErrExist. Two names of one file both
	// stay. A directory cannot move below itself: fs.ErrInvalid.
	Rename(ctx context.Context, from, to string, replace bool) error

	// Link gives a file a second name, to. Directories have one only:
	// fs.ErrPermission. A symbolic link is not followed.
	Link(ctx context.Context, from, to string) error

	// Symlink makes a symbolic link of that name. target is text, kept as it
	// is, and may lead anywhere: what is confined is to follow it. So a tree
	// served as "/" and seen as such by its users can be uploaded with its
	// links. At most 4096 bytes, without a NUL.
	Symlink(ctx context.Context, target, name string) error

	// Readlink returns the text of a symbolic link. Anything else is
	// fs.ErrInvalid.
	Readlink(ctx context.Context, name string) (string, error)

	// SetAttr changes what a says of what has the name; of what a symbolic
	// link leads to if follow says so, or else of the link, which has no size
	// and no mode: errors.ErrUnsupported. See [Attr].
	SetAttr(ctx context.Context, name string, a Attr, follow bool) error

	// Space returns how much room there is where the name is.
	Space(ctx context.Context, name string) (Space, error)

	// Features reports in what the store differs from others.
	Features() Features
}

// A Lister is a [Store] whose directories can be listed.
type Lister interface {
	// ReadDir returns the entries of a directory, sorted by name; that of
	// the root is ".". Entries are as the directory has them: a symbolic
	// link is a link, and Stat returns where it leads. Uploads under way do
	// not show. A name of no directory is fs.ErrNotExist; a directory of more
	// than 65536 entries is an error, as a list is held in memory.
	ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error)
}

// Features are what distinguishes a store from a directory of the operating system,
// which has none of them.
type Features struct {
	// OwnTimes means that a file has the time of its upload, and that none can be set.
	OwnTimes bool

	// ImpliedDirs means that a directory comes to be with the first file in it, and in
	// no other way, as on a web server.
	ImpliedDirs bool

	// CheapListings means that OpenDir describes files as Lstat does, hundreds of them by one
	// request, where Lstat takes one each.
	CheapListings bool

	// VerifiedResume means that a [Resumer] has itself held what it kept against
	// [Create].Source. It need not be a [ReadableUpload].
	VerifiedResume bool
}

// Access says how [Tree.OpenFile] opens a file. At least one of Read, Write and
// Append must be set; Create, Exclusive and Truncate need one of the latter two,
// and Exclusive needs Create. Any other combination is fs.ErrInvalid.
type Access struct {
	Read  bool
	Write bool

	// Append is Write at the end: the offsets given to WriteAt do not
	// matter, and what several append at once is kept.
	Append bool

	// Create makes a file that is missing. The directory must exist.
	Create bool

	// Exclusive refuses a name that exists, be it a symbolic link's.
	Exclusive bool

	// Truncate empties the file first.
	Truncate bool

	// Perm holds the permission bits of a new file; 0 means 0o644. They are
	// set exactly, whatever the umask. The one who creates a file may use it
	// as Access says, whatever Perm does.
	Perm fs.FileMode
}

// Writes reports whether the file may be changed.
func (a Access) Writes() bool { return a.Write || a.Append }

// Check returns fs.ErrInvalid unless a is a combination that means something.
func (a Access) Check() error {
	switch {
	case !a.Read && !a.Writes(),
		!a.Writes() && (a.Create || a.Exclusive || a.Truncate),
		a.Exclusive && !a.Create:
		return fs.ErrInvalid
	}
	return nil
}

// A Handle is a file open in place, as [Access] said: what is written shows at
// once under its name, and to all that opened it in place, though not
// necessarily to a [File] that [Store].Open returned. It stays open after the name
// has gone to another file.
//
// A use that the Access does not include is an fs.ErrPermission. Any goroutine may
// call its methods.
type Handle interface {
	// File is for Access.Read, but Stat and Close are for all.
	File

	// WriteAt stores p at off, or at the end with Access.Append. Beyond the
	// end it leaves zeros between.
	io.WriterAt

	// Truncate sets the size, in bytes: it cuts, or adds zeros.
	Truncate(size int64) error

	// SetAttr changes what a says. The size needs [Access].Write, like Truncate; the
	// rest needs no Access, only the system's permission.
	SetAttr(a Attr) error

	// Sync makes durable what was written.
	Sync() error
}

// Entries is an open directory.
type Entries interface {
	// Next describes the next entries, in no particular order, and returns
	// how many; that is io.EOF after the last. "." and ".." are not among
	// them, uploads under way do not show, and a symbolic link is a link.
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
	Available int64 // of the free bytes, those not kept for the system's administrator
	BlockSize int64 // bytes; what the others are multiples of

	Files          int64 // files that the store can hold, with those it does; 0 if it has no such bound
	FreeFiles      int64
	AvailableFiles int64 // not kept for the administrator

	MaxName  int    // bytes of one element of a name
	ID       uint64 // of the file system, if it has one
	ReadOnly bool
}

// DetailsOf returns the details of a file that a store described. It returns
// false where there are none, or the system is not known to have them.
func DetailsOf(fi fs.FileInfo) (Details, bool) {
	if d, ok := fi.Sys().(Details); ok {
		return d, true
	}
	return systemDetails(fi)
}
