package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"
)

// Capabilities describes what a [Store] can do besides its methods: some facts, and functions that
// are nil if the store lacks them. A Store has capabilities if it has a method
//
//	Capabilities() store.Capabilities
//
// A view of a Store has this method if it passes on some capabilities of the Store. This keeps the
// list of them in one place, and the view must reimplement those that would bypass its
// restrictions. Any goroutine may call the functions. Names are as in the methods of the Store.
type Capabilities struct {
	Features

	// ReadDir, OpenDir and Remove are as in [Tree]. CapabilitiesOf sets them for every Tree.
	ReadDir func(ctx context.Context, name string) ([]fs.DirEntry, error)
	OpenDir func(ctx context.Context, name string) (Entries, error)
	Remove  func(ctx context.Context, name string) error

	// RemoveIf is called by the function RemoveIf. It is safer against concurrent changes than
	// Lstat and Remove.
	RemoveIf func(ctx context.Context, name string, was fs.FileInfo) error

	// RemoveAll removes a directory and everything in it. MkdirAll makes a directory and
	// the missing ones above it.
	RemoveAll func(ctx context.Context, name string) error
	MkdirAll  func(ctx context.Context, name string, perm fs.FileMode) error

	// OwnerNames returns the names of users and groups.
	OwnerNames func(ctx context.Context, uids, gids []uint32) (users, groups []string, err error)

	// Birth returns a value that distinguishes a file from an earlier one with the same inode. It
	// does not follow a symbolic link.
	Birth func(name string) Birth

	// RealPath returns the absolute path of a name, with slashes and without symbolic links.
	RealPath func(ctx context.Context, name string) (string, error)

	// Sub opens a directory as a Tree. No name or link leads out of that Tree, even if the
	// directory is renamed or replaced. The io.Closer closes the Tree.
	Sub func(ctx context.Context, dir string) (Tree, io.Closer, error)

	// RemoveLeftovers removes from a directory the files that uploads of dead processes left
	// behind.
	RemoveLeftovers func(ctx context.Context, dir string) error

	// OpenListed opens a file that a listing or Lstat has just described. It saves the request by
	// which Open finds out what kind of file it is.
	OpenListed func(ctx context.Context, name string, listed fs.FileInfo) (File, error)

	// OpenStream opens a file that is read as one stream. All data is of the version that was
	// opened, even if the file is replaced meanwhile and however long reading takes.
	OpenStream func(ctx context.Context, name string) (File, error)

	// OpenUpload opens the data that has been written to an upload of this Store, before its
	// Commit. Zeros may follow the last byte that was written. ctx is as in [Store].Open.
	OpenUpload func(ctx context.Context, u Upload) (File, error)

	// Clone asks the server to copy a whole file to an upload of this Store. It calls copied with
	// the number of bytes copied since the last call, and returns the total. If the server cannot
	// copy this file, Clone does nothing and returns errors.ErrUnsupported.
	Clone func(ctx context.Context, to Upload, from File, copied func(n int64)) (int64, error)

	// Match compares the data that an earlier upload left with the source, and returns how many
	// bytes from the start are the same. It is for a Store that can read only hashes of that data,
	// and whose Resumed returns 0.
	Match func(ctx context.Context, u Upload, source io.ReaderAt) (int64, error)

	// Distance describes the path to the store's server; it is nil for a local store.
	Distance *Distance
}

// Features are facts about a [Store]. A directory of the operating system has none of them.
type Features struct {
	// OwnTimes means that a file has the time of its upload, and no other time can be set.
	OwnTimes bool

	// ImpliedDirs means that a directory exists as soon as there is a file in it, and cannot be
	// made otherwise, as on a web server.
	ImpliedDirs bool

	// CheapListings means that OpenDir describes files as completely as Lstat, but hundreds of them
	// in one request, where Lstat needs one request each.
	CheapListings bool

	// VerifiedResume means that the store itself compares the data that it kept of an upload with
	// [Create].Source. It need not have OpenUpload.
	VerifiedResume bool

	// NoModes means that files have no permissions.
	NoModes bool

	// WholeFiles means that files can only be written whole and removed: they have neither
	// attributes nor links, and cannot be renamed.
	WholeFiles bool
}

// A Distance describes the path to a server. The longer the round trip, the more small files a copy
// transfers at once.
type Distance struct {
	// RoundTrip returns the shortest duration of a recent request; 0 if it is not known.
	RoundTrip func() time.Duration

	// OpenFiles returns how many files and directories may be open at once; 0 if the limit is not
	// known, or nothing stays open.
	OpenFiles func() int

	// TooManyOpen reports whether an error from opening a file or a directory may mean that too
	// many are open. If so, the caller tries again when fewer are open.
	TooManyOpen func(err error) bool
}

// CapabilitiesOf returns what a store can do besides the methods of [Store], and of [Tree]
// if it is one.
func CapabilitiesOf(s Store) Capabilities {
	var c Capabilities
	if able, ok := s.(interface{ Capabilities() Capabilities }); ok {
		c = able.Capabilities()
	}
	if t, ok := s.(Tree); ok {
		c.ReadDir, c.OpenDir, c.Remove = t.ReadDir, t.OpenDir, t.Remove
	}
	return c
}

// ErrChanged says that a file is not, or no longer, the one that the caller meant.
var ErrChanged = errors.New("the file has been replaced or changed")

// RemoveIf removes the file of that name if was describes it. If the name is a symbolic link, was
// may describe its target instead, with the same size and time of modification. Otherwise it
// returns [ErrChanged]. The caller must have the file open, or another file may get its inode. For
// a store without Remove, RemoveIf returns errors.ErrUnsupported.
//
// POSIX can only remove a name, whichever file has it. So package localdir first renames the file
// to a temporary name, in one step, then checks which file it is, and renames a wrong one back.
// Meanwhile the name is free for a moment. If a third file takes the name in that moment, that file
// stays, as if it had replaced the other. If the process dies or a garbage collection runs in that
// moment, the renamed file is removed in any case. [Mem] holds its lock. Other stores check just
// before they remove.
func RemoveIf(ctx context.Context, s Store, name string, was fs.FileInfo) error {
	c := CapabilitiesOf(s)
	switch {
	case c.RemoveIf != nil:
		return c.RemoveIf(ctx, name, was)
	case c.Remove == nil:
		return &fs.PathError{Op: "remove", Path: name, Err: errors.ErrUnsupported}
	}
	fi, err := s.Stat(ctx, name)
	if err != nil {
		return err
	}
	if !alike(fi, was) {
		return &fs.PathError{Op: "remove", Path: name, Err: ErrChanged}
	}
	return c.Remove(ctx, name)
}

// alike reports whether two descriptions have the same size and time of modification.
func alike(a, b fs.FileInfo) bool { return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) }

// unchanged reports whether two descriptions are of the same file in the same state.
func unchanged(a, b fs.FileInfo) bool { return SameFile(a, b) && alike(a, b) }
