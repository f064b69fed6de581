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

// As returns what f can do as the interface T. If f lacks the methods of T and has a method
//
//	Unwrap() any
//
// As asks the value that Unwrap returns, and so on. f is a [File], a [Handle] or an [Upload].
//
// A type around one of these implements Unwrap, and so passes on every capability that it
// does not implement itself. It leaves Unwrap out if the capabilities would bypass it: if it
// changes what is read, for example. T never includes Commit or Close, which a wrapper
// usually extends.
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

// A TryReader is a [File] that can be read without waiting. A loop that must
// never wait for a disk tries first, and leaves the read to another goroutine
// after ErrWouldBlock.
type TryReader interface {
	// TryReadAt fills bufs in order with the bytes at off that are in memory,
	// and returns how many it read. If it reads less than bufs can hold, the rest
	// is not in memory or the file ends there; the next call shows which.
	// TryReadAt returns an error only with 0 bytes: [ErrWouldBlock]; io.EOF at the
	// end; errors.ErrUnsupported, from then on for every call, if the file system
	// does not report what is in memory and ReadAt is the only way; or that the file
	// was closed, or could not be read.
	TryReadAt(bufs [][]byte, off int64) (int, error)
}

// An Identifier is a [File] that can say whether another is the same. One of several files
// with the same Identity may be read for all, as long as it is open; data that is written
// into the file meanwhile may show or not. So an Identifier does not end with the context
// that it was opened with: [SharedFiles] gives it to other readers.
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

// Changed returns when the file was last changed, its attributes included. The
// system sets this time, and no program can. A file that changes twice
// between two ticks of the system's clock may have one Identity for two contents,
// so store i for later only once some ticks have passed.
func (i Identity) Changed() time.Time { return time.Unix(0, i.Ctime) }

// A Versioned is a [File] that knows the version of its content, in the terms
// of its server: two files of one name and size have the same version only if they have
// the same content. The version is "" if nothing distinguishes the versions. An
// [fs.FileInfo] may be a Versioned too.
type Versioned interface {
	Version() string
}

// A PartOpener is a [File] whose bytes are in files of the operating system, for
// callers that have the kernel send them (sendfile).
type PartOpener interface {
	// OpenPart returns a file of the operating system that has the bytes at off. Its
	// offset is at these bytes, and belongs to the caller until it calls end; the
	// caller must not close the file. The file has length of these bytes in a row, at
	// most n, or fewer if the File is shorter. OpenPart returns false if
	// no file has them at the moment: ReadAt reads these bytes, or waits for them.
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

	// Name is the name of an [Upload] in its store, if the store may have chosen another
	// one than the caller of Create; otherwise it is empty.
	Name string
}

// LocationOf returns where a [File], a [Handle] or an [Upload] is.
func LocationOf(f any) Location {
	if l, ok := As[Located](f); ok {
		return l.Location()
	}
	return Location{}
}

// A RemoteFile is a [File] on a server, which has faster ways than ReadAt.
type RemoteFile interface {
	// FetchTo writes the file to w, from off up to its end, by its fastest way. It
	// returns how many bytes from off on have come without a gap. It writes to w at the
	// offsets of the file, in any order.
	FetchTo(ctx context.Context, w io.WriterAt, off int64) (int64, error)

	// Hash returns the hash of n bytes from off on, as the server computes it. It uses the
	// first of the algorithms, such as "sha256", that the server supports, and returns
	// errors.ErrUnsupported if it supports none.
	Hash(ctx context.Context, off, n int64, algorithms ...string) (algorithm string, sum []byte, err error)
}

// A Filler is an [Upload] or a [Handle] that takes content by a faster way than WriteAt.
type Filler interface {
	// FillFrom takes size bytes of r from off on, and returns how many bytes from off on
	// are written without a gap. It may read r again until it is committed or closed.
	FillFrom(ctx context.Context, r io.ReaderAt, off, size int64) (int64, error)
}

// A Resumer is an [Upload] that was begun with [Create].Resume, by a store that
// supports resuming.
type Resumer interface {
	// Resumed returns how many bytes from the start an earlier upload has left:
	// writing continues behind them. They are as they were written then, whatever
	// happened to the process or the machine. The sender has to know whether
	// the file still has the same bytes. See also [Capabilities].Match.
	Resumed() int64

	// Discard ends the upload and keeps nothing. It does nothing after the upload
	// has ended.
	Discard() error
}

// An AttrUpload is an [Upload] that takes attributes before it has its name, so
// that it is never visible without them.
type AttrUpload interface {
	// SetAttr sets the mode and the times that the file gets at Commit, in
	// place of the defaults. A size or an owner is errors.ErrUnsupported: for the
	// size there is Truncate.
	SetAttr(a Attr) error

	// Perm returns the permission bits that the file gets at Commit unless SetAttr sets
	// others. It returns false if the store does not know them before.
	Perm() (fs.FileMode, bool)
}
