package treecopy

import (
	"context"
	"io"
	"io/fs"
	"time"

	"github.com/haul-project/haul/store"
)

// A SourceTree is the part of a [store.Tree] that is needed to copy from it.
type SourceTree interface {
	Stat(ctx context.Context, name string) (fs.FileInfo, error)
	Lstat(ctx context.Context, name string) (fs.FileInfo, error)
	OpenDir(ctx context.Context, name string) (store.Entries, error)
	Open(ctx context.Context, name string) (store.File, error)
	Readlink(ctx context.Context, name string) (string, error)
}

// A TargetTree is the part of a [store.Tree] that is needed to copy files to it. One with
// ImpliedDirs need not have more, and then gets neither attributes nor symbolic links,
// and no file is written in place.
type TargetTree interface {
	store.Store
	Lstat(ctx context.Context, name string) (fs.FileInfo, error)
	Features() store.Features
}

// The interfaces below are optional. A copy uses them if a tree, a file or an upload has their methods.

// A Fetcher is a [store.File] that writes itself to w, from off up to its end,
// by its fastest way. It returns how many bytes from off on have come without a
// gap. w is written at the offsets of the file, in any order.
type Fetcher interface {
	FetchTo(ctx context.Context, w io.WriterAt, off int64) (int64, error)
}

// A Filler is a [store.Upload] or [store.Handle] that takes size bytes of r from
// off on, by its fastest way. It returns how many bytes from off on are written
// without a gap. It may read r again until it is committed or closed.
type Filler interface {
	FillFrom(ctx context.Context, r io.ReaderAt, off, size int64) (int64, error)
}

// A Cloner is a [store.Upload] that can have its server copy all of a file which the same
// server has. It calls copied with how many bytes it has copied, now and then, and returns how
// many there are. If it cannot do that with this file, nothing is done, and the error is
// errors.ErrUnsupported.
type Cloner interface {
	CloneFrom(ctx context.Context, from store.File, copied func(n int64)) (int64, error)
}

// A Hasher is a [store.File] that can return the hash of a part of itself without
// having it read: n bytes from off on. It uses the first of the algorithms, such as
// "sha256", that it supports. If it supports none, it returns errors.ErrUnsupported.
type Hasher interface {
	Hash(ctx context.Context, off, n int64, algorithms ...string) (algorithm string, sum []byte, err error)
}

// A Matcher is a [store.Resumer] that knows of the content which it kept no more than
// hashes. Its Resumed returns 0. Match reads the source, compares, and returns how many
// bytes from the start are there and the same.
type Matcher interface {
	Match(ctx context.Context, source io.ReaderAt) (int64, error)
}

// A Resolver is a [SourceTree] that returns where a name leads: its absolute path,
// with slashes, in which no symbolic link is left. FollowLinks uses it to find loops in
// trees whose files [store.SameFile] does not know.
type Resolver interface {
	RealPath(ctx context.Context, name string) (string, error)
}

// A ListedOpener is a [SourceTree] or a [TargetTree] that opens a file which a listing, or
// Lstat, has just described, and need not look again what it is.
type ListedOpener interface {
	OpenListed(ctx context.Context, name string, listed fs.FileInfo) (store.File, error)
}

// A Distant is a [SourceTree] or a [TargetTree] that a server has. The further away that
// is, the more small files are on their way at once.
type Distant interface {
	// RoundTrip returns the shortest time that a request has taken of late; 0 if that is
	// not known.
	RoundTrip() time.Duration

	// OpenFiles returns how many files and directories may be open at a time; 0 if that
	// is not known, or nothing is ever open.
	OpenFiles() int

	// TooManyOpen reports whether an error of opening a file or a directory may come of
	// the number that are open. Then it is tried again when fewer are.
	TooManyOpen(err error) bool
}

// A Subtree is a [store.Tree] that can open a directory of itself as a tree that
// nothing leads out of, whatever becomes of its name. The io.Closer ends it.
type Subtree interface {
	Sub(ctx context.Context, dir string) (store.Tree, io.Closer, error)
}

// A Streamer is a [Fetcher] that can come as one stream, all of which is of the
// version that was opened, even if the file is replaced meanwhile. OneStream has
// it do so, however long that takes.
type Streamer interface {
	OneStream()
}

// A Sweeper is a [store.Tree] that can remove from a directory what uploads left
// there whose process died.
type Sweeper interface {
	SweepDir(ctx context.Context, dir string) error
}
