package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"io/fs"
	"os"
	"time"
)

// As returns f as the interface T, if f implements T. Otherwise, if f has a method
//
//	Unwrap() any
//
// As tries the value that Unwrap returns, and so on. It returns false if none of these values
// implements T. f is a [File], a [Handle] or an [Upload].
//
// A type that wraps a File, a Handle or an Upload has Unwrap to pass on every capability that it
// does not implement itself. It must not have Unwrap if a capability could bypass the wrapper, for
// example because the wrapper changes the data that is read. T must never include Commit or Close,
// as wrappers usually extend these.
func As[T any](f any) (T, bool) {
	for {
		if t, ok := f.(T); ok {
			return t, true
		}
		outer, ok := f.(interface{ Unwrap() any })
		if !ok {
			var none T
			return none, false
		}
		f = outer.Unwrap()
	}
}

// A TryReader is a [File] that can be read without waiting. A loop that must never wait for a disk
// calls TryReadAt first. If that returns ErrWouldBlock, the loop lets another goroutine call
// ReadAt.
type TryReader interface {
	// TryReadAt fills bufs in order with bytes from off that are in memory, and returns the number
	// of bytes. If that is less than bufs can hold, either the rest is not in memory or the file
	// ends there; the next call shows which. It returns an error only together with 0 bytes:
	// [ErrWouldBlock]; io.EOF at the end of the file; an error that says that the file is closed or
	// cannot be read; or errors.ErrUnsupported if the file system does not report which data is in
	// memory. In the last case every further call returns the same, and only ReadAt works.
	TryReadAt(bufs [][]byte, off int64) (int, error)
}

// An Identifier is a [File] that can be recognized as the same file as another open one. Of several
// open files with the same Identity, a program may read one in place of all the others; it may or
// may not see data that is written to the file meanwhile. An Identifier must stay usable after the
// context that it was opened with has ended, since a server may hand it to other readers.
type Identifier interface {
	// Identity returns false if the system cannot identify files.
	Identity() (Identity, bool)
}

// An Identity identifies a file together with its content: two open files with the same Identity
// have the same content. Identities can be compared with ==.
type Identity struct {
	Device, Inode uint64
	Size          int64
	Ctime, Mtime  int64 // Unix nanoseconds
}

// Digest returns a hash of i that may be made public, because it does not reveal the inode number.
// Two files have the same digest only if they have the same Identity. Every process computes the
// same digest.
func (i Identity) Digest() [sha256.Size]byte {
	var b [5 * 8]byte
	for n, v := range [...]uint64{i.Device, i.Inode, uint64(i.Size), uint64(i.Ctime), uint64(i.Mtime)} {
		binary.BigEndian.PutUint64(b[8*n:], v)
	}
	return sha256.Sum256(b[:])
}

// Changed returns when the content or the attributes of the file were last changed. The system sets
// this time, and programs cannot. If a file changes twice between two ticks of the system's clock,
// both contents may have the same Identity. So an Identity may be kept for later only if, when it
// was taken, Changed was some ticks ago.
func (i Identity) Changed() time.Time { return time.Unix(0, i.Ctime) }

// A Versioned is a [File] that knows which version of the content it has, according to its server.
// If two files of the same name and size have the same version, they have the same content. The
// version is "" if nothing distinguishes versions. An [fs.FileInfo] may be a Versioned too.
type Versioned interface {
	Version() string
}

// A PartOpener is a [File] whose bytes are stored in files of the operating system. It is for
// callers that let the kernel send the bytes (sendfile).
type PartOpener interface {
	// OpenPart returns a file of the operating system that holds the bytes at off. The file's
	// offset is set to these bytes. Until it calls end, the caller may use that offset; it must not
	// close the file. length is the number of contiguous bytes in the file: at most n, and less if
	// the File ends before. OpenPart returns false if no such file holds the bytes at the moment;
	// then use ReadAt, which can wait for them.
	OpenPart(off, n int64) (part *os.File, length int64, end func(), ok bool)
}

// A Located is a [File], a [Handle] or an [Upload] that knows its path or its name.
type Located interface {
	Location() Location
}

// A Location says where a file is, for log messages.
type Location struct {
	// Path is the path on the disk by which the file was opened. Symbolic links in it are not
	// resolved. It is empty if the file is not on the disk or its path is not known.
	Path string

	// Name is the name of an [Upload] in its store. It is empty unless the store may have chosen
	// another name than the one given to Create.
	Name string
}

// LocationOf returns the location of a [File], a [Handle] or an [Upload], or the zero Location if
// it is not known.
func LocationOf(f any) Location {
	if l, ok := As[Located](f); ok {
		return l.Location()
	}
	return Location{}
}

// A RemoteFile is a [File] on a server. Its methods are faster than reading everything with ReadAt.
type RemoteFile interface {
	// FetchTo copies the file, from off to its end, to the same offsets of w, by the fastest way
	// that the server supports. It may write the pieces in any order. It returns the number of
	// bytes from off that have arrived without a gap.
	FetchTo(ctx context.Context, w io.WriterAt, off int64) (int64, error)

	// Hash returns a hash of the n bytes at off, which the server computes. It uses the first of
	// the given algorithms, such as "sha256", that the server supports. If the server supports no
	// algorithm of the list, Hash returns errors.ErrUnsupported.
	Hash(ctx context.Context, off, n int64, algorithms ...string) (algorithm string, sum []byte, err error)
}

// A Filler is an [Upload] or a [Handle] that copies from a reader faster than with calls of
// WriteAt.
type Filler interface {
	// FillFrom copies the size bytes at off in r to the same offset of the file. It returns the
	// number of bytes from off that are written without a gap. It may read r again until the file
	// is committed or closed.
	FillFrom(ctx context.Context, r io.ReaderAt, off, size int64) (int64, error)
}

// A Resumer is an [Upload] that was begun with [Create].Resume in a store that can resume uploads.
type Resumer interface {
	// Resumed returns how many bytes from the start of the file an earlier upload left; the caller
	// continues after them. These bytes are intact, even if the process or the machine crashed.
	// Whether the source still has the same bytes is for the caller to find out. See also
	// [Capabilities].Match.
	Resumed() int64

	// Discard ends the upload and removes its data. It does nothing if the upload has already
	// ended.
	Discard() error
}

// An AttrUpload is an [Upload] whose attributes can be set before Commit, so that the file is never
// visible without them.
type AttrUpload interface {
	// SetAttr sets the mode and the times that the file gets at Commit, instead of the defaults.
	// For a size or an owner it returns errors.ErrUnsupported; use Truncate to set the size.
	SetAttr(a Attr) error

	// Perm returns the permission bits that the file gets at Commit unless SetAttr sets others. It
	// returns false if the store does not know them before Commit.
	Perm() (fs.FileMode, bool)
}
