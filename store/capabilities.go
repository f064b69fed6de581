package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"
)

// Capabilities describes what a [Store] can do in addition to its methods. It holds some facts, and
// some functions; a function that the store does not support is nil. A Store has capabilities if it
// has a method
//
//	Capabilities() store.Capabilities
//
// A view of a Store has this method if it passes on some capabilities of the Store. A view lists
// the capabilities that it passes on, and reimplements each one that would bypass its restrictions.
// Any goroutine may call the functions. Names follow the same rules as in the methods of the Store.
type Capabilities struct {
	Features

	// ReadDir, OpenDir and Remove are as in [Tree]. CapabilitiesOf sets them for every Tree.
	ReadDir func(ctx context.Context, name string) ([]fs.DirEntry, error)
	OpenDir func(ctx context.Context, name string) (Entries, error)
	Remove  func(ctx context.Context, name string) error

	// RemoveIf implements the function [RemoveIf] of this package. It is safer against concurrent
	// changes than a call of Lstat followed by Remove.
	RemoveIf func(ctx context.Context, name string, was fs.FileInfo) error

	// RemoveAll removes a directory and everything in it. MkdirAll makes a directory and
	// the missing ones above it.
	RemoveAll func(ctx context.Context, name string) error
	MkdirAll  func(ctx context.Context, name string, perm fs.FileMode) error

	// OwnerNames returns the names of the users and groups with these numbers.
	OwnerNames func(ctx context.Context, uids, gids []uint32) (users, groups []string, err error)

	// Birth returns a value that distinguishes a file from an earlier one with the same inode. It
	// does not follow a symbolic link.
	Birth func(name string) Birth

	// RealPath returns the absolute path of a name, with slashes and without symbolic links.
	RealPath func(ctx context.Context, name string) (string, error)

	// Sub opens a directory as a Tree. No name or link leads out of that Tree, even if the
	// directory is renamed or replaced. The io.Closer closes the Tree.
	Sub func(ctx context.Context, dir string) (Tree, io.Closer, error)

	// RemoveLeftovers removes the temporary files that uploads of dead processes left in a
	// directory.
	RemoveLeftovers func(ctx context.Context, dir string) error

	// OpenListed opens a file that a listing or Lstat has just described as listed. This saves the
	// request by which Open finds out what kind of file it is.
	OpenListed func(ctx context.Context, name string, listed fs.FileInfo) (File, error)

	// OpenStream opens a file that the caller reads as one stream. All data comes from the version
	// that was opened, even if the file is replaced while it is read, however long that takes.
	OpenStream func(ctx context.Context, name string) (File, error)

	// OpenUpload opens, for reading, the data written so far to an upload of this Store that is not
	// committed yet. Zeros may follow the last byte that was written. ctx is used as in
	// [Store].Open.
	OpenUpload func(ctx context.Context, u Upload) (File, error)

	// Clone asks the server to copy a whole file to an upload of this Store. Whenever it learns of
	// progress, it calls copied with the number of bytes copied since the last call. It returns the
	// total. If the server cannot copy this file, Clone does nothing and returns
	// errors.ErrUnsupported.
	Clone func(ctx context.Context, to Upload, from File, copied func(n int64)) (int64, error)

	// Match compares the data that an earlier upload left with the source, and returns the number
	// of bytes from the start that are the same. It is for a Store that cannot read that data but
	// can get hashes of it, and whose Resumed therefore returns 0.
	Match func(ctx context.Context, u Upload, source io.ReaderAt) (int64, error)

	// Distance describes the path to the store's server; it is nil for a local store.
	Distance *Distance
}

// Features are facts about a [Store]. All are false for a directory of the operating system.
type Features struct {
	// OwnTimes means that the time of a file is always the time of its upload, and cannot be set.
	OwnTimes bool

	// ImpliedDirs means that a directory exists as soon as it contains a file, and cannot be
	// created in any other way. Some web servers work like this.
	ImpliedDirs bool

	// CheapListings means that OpenDir describes files as completely as Lstat does, at a lower
	// cost: one request describes hundreds of files, while Lstat needs one request for each.
	CheapListings bool

	// VerifiedResume means that the store itself checks whether the data that it kept of an earlier
	// upload belongs to [Create].Source. Such a store does not need OpenUpload.
	VerifiedResume bool

	// NoModes means that files have no permissions.
	NoModes bool

	// WholeFiles means that files can only be written whole and removed: they have neither
	// attributes nor links, and cannot be renamed.
	WholeFiles bool
}

// A Distance describes the path to a server. The longer the round trip, the more small files a copy
// transfers in parallel.
type Distance struct {
	// RoundTrip returns the shortest duration of recent requests; 0 if it is not known.
	RoundTrip func() time.Duration

	// OpenFiles returns the largest number of files and directories that may be open at once. It
	// returns 0 if the limit is not known, or if files do not stay open on the server.
	OpenFiles func() int

	// TooManyOpen reports whether err, returned when a file or a directory was opened, may mean
	// that too many are open. If so, the caller tries again when fewer are open.
	TooManyOpen func(err error) bool
}

// CapabilitiesOf returns what a store can do in addition to the methods of [Store]. For a [Tree],
// the result always has ReadDir, OpenDir and Remove.
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

// ErrChanged says that the file of a name is not the file that the caller meant, or has been
// changed.
var ErrChanged = errors.New("the file has been replaced or changed")

// RemoveIf removes the file of that name if `was` still describes it; otherwise it returns
// [ErrChanged]. If the name is a symbolic link, `was` may describe the link's target instead, with
// the same size and time of modification. The caller must keep the file open: otherwise a new file
// could get its inode number. For a store without Remove, RemoveIf returns errors.ErrUnsupported.
//
// POSIX can only remove a name, whichever file it belongs to by then. So package localdir first
// renames the file to a temporary name, in one step, then checks which file it is, and renames a
// wrong one back. For a moment, the name is free. If another file takes the name in that moment,
// that file stays, as if it had replaced the renamed one. If in that moment the process dies, or a
// sweep runs, the renamed file is removed even if it was the wrong one. [Mem] holds its lock
// instead. Other stores check just before they remove the file.
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
