// Package store keeps files. It opens them for reading, and takes new ones such that a reader never
// sees a partial file.
//
// A file is read at offsets, by any number of readers:
//
//	f, err := st.Open(ctx, "boot/kernel")
//	if err != nil {
//		return err
//	}
//	defer f.Close()
//	n, err := f.ReadAt(buf, off)
//
// and written at offsets, in any order, then published in one step:
//
//	u, err := st.Create(ctx, "log", store.Create{Size: size})
//	if err != nil {
//		return err
//	}
//	defer u.Close() // discards, unless committed
//	if _, err := u.WriteAt(data, off); err != nil {
//		return err
//	}
//	return u.Commit()
//
// Package localdir keeps files in a directory, and [Mem] in memory. [Sink] keeps nothing: it hands
// each upload to the program. [Layers] searches several stores, and [FoldCase] finds names that are
// spelled in another case. All but Sink pass storetest.Run, and so should any other [Store].
//
// A [Tree] is a Store whose directories, links and attributes can be changed too, and whose files
// can be written in place. The trees of localdir and Mem pass storetest.RunTree; [ReadOnly],
// [UploadOnly] and similar views restrict a tree.
//
// A program that answers requests with its own content implements a Store whose Open returns
// [FromBytes] or [NewFile].
//
// # Optional capabilities
//
// [CapabilitiesOf] returns what a Store can do besides its methods, such as listing directories.
// [As] does the same for a File, a Handle or an Upload, by these interfaces:
//
//   - File: [TryReader], [Identifier], [Versioned], [PartOpener], [RemoteFile]
//   - Upload: [Resumer], [AttrUpload]
//   - Upload or Handle: [Filler]
//   - all three: [Located]
//
// There are no other optional interfaces than these and the method Capabilities of a Store.
//
// # Errors
//
// An error says which operation failed on which name, and wraps the reason. Use errors.Is to find
// the reason: [fs.ErrNotExist], [fs.ErrExist], [fs.ErrPermission], [fs.ErrInvalid], [fs.ErrClosed],
// [ErrNotRegular], [ErrNoSpace] or [ErrUnavailable] where one of them fits. An error number of the
// operating system stays in the chain too, so that errors.Is(err, syscall.ENOSPC) also holds.
//
// # Stability
//
// Before version 1, a release may change names of this package, and the changelog says so.
// New abilities of stores become fields of [Capabilities], so that other stores still compile.
// The page https://github.com/haul-project/haul/blob/main/docs/versions.md has the whole promise.
package store

import (
	"context"
	"io"
	"io/fs"
	"os"
	"time"
)

// A Store holds files. Any goroutine may call its methods.
//
// Names follow [ValidName]: slash-separated, relative, without "." or ".." elements and without a
// NUL. They need not be UTF-8. Any other name, and a name that the operating system cannot
// represent, is [fs.ErrInvalid].
type Store interface {
	// Open opens a file for reading. It returns [ErrNotRegular] for anything but a regular file, so
	// it never waits for the other end of a pipe. A store may end the File when ctx ends.
	Open(ctx context.Context, name string) (File, error)

	// Create begins a file. If the store has directories, the file's directory must exist, unless
	// [Create].Parents is set. The name must be free, or be that of a regular file.
	Create(ctx context.Context, name string, c Create) (Upload, error)

	// Stat describes a file or a directory. It follows symbolic links.
	Stat(ctx context.Context, name string) (fs.FileInfo, error)
}

// A File is open for reading. Its content is the content that the name had at Open, even when an
// Upload replaces the file meanwhile; only writes in place, through [Tree].OpenFile, may show.
// Several goroutines may read at once.
type File interface {
	io.ReaderAt
	io.Closer
	Stat() (fs.FileInfo, error)
}

// Create says how to begin an [Upload]. The zero value asks for a file of unknown size, which
// replaces an existing file of that name.
type Create struct {
	// Size is the expected number of bytes; 0 or less means unknown. A store that knows that it
	// lacks this room fails at once with ErrNoSpace. It reserves nothing, since a peer can announce
	// any size, so the upload may still fail with ErrNoSpace when others fill the store meanwhile.
	// The file may become shorter or longer than Size.
	Size int64

	// Perm holds the permission bits of a new file; 0 means 0o644. They are set exactly, whatever
	// the umask, so a caller that obeys the umask must apply it first. A file that replaces another
	// gets that file's bits.
	Perm fs.FileMode

	// Exclusive refuses a name that exists, now or at Commit.
	Exclusive bool

	// Parents makes the missing directories above the file, if the store supports that; otherwise a
	// missing directory is fs.ErrNotExist, as without Parents. An upload that fails removes them
	// again, unless they are no longer empty or the process has died.
	Parents bool

	// Resume, if not empty, identifies the uploader, such as by a user's name, and makes the upload
	// a [Resumer] if the store supports that. If it is closed before Commit, or its process dies,
	// the store keeps the data that was written without a gap from the start, except perhaps the
	// last few MiB; the next upload to the same name, with the same Resume and the same Size,
	// continues from there. While one is under way, another is ErrBusy. Data written beyond a gap
	// is lost.
	Resume string

	// Source, if not empty, identifies the content of an upload with Resume, such as by the size
	// and the time of the source file. Data that was written for another Source is discarded.
	Source string

	// NoSync lets Commit give the file its name without waiting for the disk. The file is complete
	// whatever happens to the process, but may be lost, in full or in part, if the machine goes
	// down in the moments after.
	NoSync bool

	// Published, if not nil, is set by Commit to describe the published file, if the store supports
	// that. Only a store on a disk of this machine does. The caller closes it.
	Published *Published
}

// An Upload is a file that is being written. It is invisible under its name until Commit, and
// complete after. Of two uploads to one name, the last to commit wins.
//
// Several goroutines may write at once, to different offsets. All writes must have returned before
// Truncate, Commit or Close is called.
type Upload interface {
	// WriteAt stores p at off. Gaps that are never written read as zeros.
	io.WriterAt

	// Truncate sets the size, in bytes: it cuts the file, or adds zeros.
	Truncate(size int64) error

	// Commit makes the file durable, then gives it its name, and ends the Upload. With Exclusive it
	// fails with fs.ErrExist if the name was taken meanwhile. When Commit fails, the file is
	// discarded; only if making the new name durable failed, the file may have its name already.
	Commit() error

	// Close discards the file unless it was committed, or can be resumed:
	// see [Create]. Closing again does nothing, so that it is safe to defer.
	Close() error
}

// Published is a file on the disk as it was when an [Upload] had just given it its name, or when a
// [Handle] that had been written to was closed. The zero value means that the file is not known.
type Published struct {
	Info fs.FileInfo // [os.SameFile] distinguishes it from a later file of the same name
	When time.Time

	// File is open for reading, even after the name has been given to another file. It is nil if
	// the file can only be opened by its path.
	File *os.File

	// Closed, if set, is called when File is closed.
	Closed func()
}

// OrNil returns p if the file is known, or nil.
func (p *Published) OrNil() *Published {
	if p == nil || p.Info == nil {
		return nil
	}
	return p
}

// Close closes the file, if it is open.
func (p *Published) Close() {
	if p == nil || p.File == nil {
		return
	}
	_ = p.File.Close() // it was only read, so nothing is lost
	if p.File = nil; p.Closed != nil {
		p.Closed()
	}
}
