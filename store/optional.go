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

// As returns f, or a value that it wraps, as the interface T. If f lacks the methods of T and has a
// method
//
//	Unwrap() any
//
// As tries the value that Unwrap returns, and so on. f is a [File], a [Handle] or an [Upload].
//
// A type that wraps one of these has Unwrap to pass on every capability that it does not implement
// itself. It must not have Unwrap if the capabilities would bypass it, for example if it changes
// the data that is read. T must never include Commit or Close, which a wrapper usually extends.
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
// calls TryReadAt first, and leaves the read to another goroutine after ErrWouldBlock.
type TryReader interface {
	// TryReadAt fills bufs in order with the bytes at off that are in memory, and returns how many
	// it read. If it reads less than bufs can hold, either the rest is not in memory or the file
	// ends there; the next call shows which. TryReadAt returns an error only with 0 bytes:
	// [ErrWouldBlock]; io.EOF at the end; an error that the file is closed or cannot be read; or
	// errors.ErrUnsupported, then for every further call too, if the file system does not report
	// which data is in memory, and only ReadAt works.
	TryReadAt(bufs [][]byte, off int64) (int, error)
}

// An Identifier is a [File] that can say whether it is the same file as another one. Of several
// open files with the same Identity, one may be read in place of all; data that is written into the
// file meanwhile may be seen or not. An Identifier must remain usable after the context that it was
// opened with ends, since a server may give it to other readers.
type Identifier interface {
	// Identity returns false where the system does not identify files.
	Identity() (Identity, bool)
}

// An Identity is the same for two open files only if they have the same
// content. It is comparable.
type Identity struct {
	Device, Inode uint64
	Size          int64
	Ctime, Mtime  int64 // Unix nanoseconds
}

// Digest returns a hash of i that may be made public: two files have the same digest
// only if their Identity is the same, and the digest does not reveal the inode. It is the
// same in every process.
func (i Identity) Digest() [sha256.Size]byte {
	var b [5 * 8]byte
	for n, v := range [...]uint64{i.Device, i.Inode, uint64(i.Size), uint64(i.Ctime), uint64(i.Mtime)} {
		binary.BigEndian.PutUint64(b[8*n:], v)
	}
	return sha256.Sum256(b[:])
}

// Changed returns when the file or its attributes were last changed. The system sets this time, and
// no program can set it. A file that changes twice between two ticks of the system's clock may have
// the same Identity for two contents, so keep i for later only once some ticks have passed.
func (i Identity) Changed() time.Time { return time.Unix(0, i.Ctime) }

// A Versioned is a [File] that knows its server's version of the content: two files of one name and
// size have the same version only if they have the same content. The version is "" if nothing
// distinguishes the versions. An [fs.FileInfo] may be a Versioned too.
type Versioned interface {
	Version() string
}

// A PartOpener is a [File] whose bytes are in files of the operating system, for callers that let
// the kernel send them (sendfile).
type PartOpener interface {
	// OpenPart returns a file of the operating system that holds the bytes at off. Its offset is
	// set to these bytes, and belongs to the caller until it calls end; the caller must not close
	// the file. length is the number of contiguous bytes there: at most n, or fewer if the File is
	// shorter. OpenPart returns false if no file holds the bytes at the moment; then use ReadAt,
	// which may wait for them.
	OpenPart(off, n int64) (part *os.File, length int64, end func(), ok bool)
}

// A Located is a [File], a [Handle] or an [Upload] that knows where it is.
type Located interface {
	Location() Location
}

// A Location is where a file is, for a log.
type Location struct {
	// Path is the path on the disk by which the file was opened. Symbolic links are
	// not resolved. It is empty if the file is not on the disk, or its path is not known.
	Path string

	// Name is the name of an [Upload] in its store, if the store may have chosen another name than
	// the caller of Create gave; otherwise it is empty.
	Name string
}

// LocationOf returns where a [File], a [Handle] or an [Upload] is.
func LocationOf(f any) Location {
	if l, ok := As[Located](f); ok {
		return l.Location()
	}
	return Location{}
}

// A RemoteFile is a [File] on a server, with faster methods than ReadAt.
type RemoteFile interface {
	// FetchTo writes the file to w, from off up to its end, by the fastest way. It returns how many
	// bytes from off arrived without a gap. It writes to w at the offsets of the file, in any
	// order.
	FetchTo(ctx context.Context, w io.WriterAt, off int64) (int64, error)

	// Hash returns a hash of the n bytes at off, which the server computes. It uses the first of
	// the algorithms, such as "sha256", that the server supports, and returns errors.ErrUnsupported
	// if it supports none.
	Hash(ctx context.Context, off, n int64, algorithms ...string) (algorithm string, sum []byte, err error)
}

// A Filler is an [Upload] or a [Handle] with a faster method than WriteAt.
type Filler interface {
	// FillFrom copies size bytes of r, at off, to the same offset of the file, and returns how many
	// bytes from off are written without a gap. It may read r again until the file is committed or
	// closed.
	FillFrom(ctx context.Context, r io.ReaderAt, off, size int64) (int64, error)
}

// A Resumer is an [Upload] that was begun with [Create].Resume, in a store that supports resuming.
type Resumer interface {
	// Resumed returns how many bytes from the start an earlier upload left; writing continues after
	// them. They are intact, whatever happened to the process or the machine. The caller must know
	// whether the source still has the same bytes. See also [Capabilities].Match.
	Resumed() int64

	// Discard ends the upload and keeps nothing. After the end of the upload it does nothing.
	Discard() error
}

// An AttrUpload is an [Upload] whose attributes can be set before it has its name, so that the file
// is never visible without them.
type AttrUpload interface {
	// SetAttr sets the mode and the times that the file gets at Commit, in place of the defaults.
	// Setting a size or an owner is errors.ErrUnsupported; use Truncate for the size.
	SetAttr(a Attr) error

	// Perm returns the permission bits that the file gets at Commit unless SetAttr sets others. It
	// returns false if the store does not know them before Commit.
	Perm() (fs.FileMode, bool)
}
