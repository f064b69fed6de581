// Package store keeps files. It opens files for reading, and accepts new files in such a way that a
// reader never sees a partial one.
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
//
// discards the file, unless it was committed
//
//	if _, err := u.WriteAt(data, off); err != nil {
//		return err
//	}
//	return u.Commit()
//
// Package localdir keeps files in a directory, and [Mem] keeps them in memory. [Sink] keeps
// nothing: it passes each upload to the program. [Layers] searches several stores, and [FoldCase]
// finds names that are spelled in another case. All but Sink pass the tests of storetest.Run, and
// any other [Store] should pass them too.
//
// A [Tree] is a Store whose directories, links and attributes can be changed too, and whose files
// can be written in place. The trees of localdir and Mem pass the tests of storetest.RunTree.
// [ReadOnly], [UploadOnly] and similar views restrict a tree.
//
// A program that answers requests with its own content implements a Store whose Open returns
// [FromBytes] or [NewFile].
//
// # Optional capabilities
//
// [CapabilitiesOf] returns what a Store can do in addition to its methods, for example list
// directories. For a File, a Handle or an Upload, [As] finds optional abilities, by these
// interfaces:
//
//   - File: [TryReader], [Identifier], [Versioned], [PartOpener], [RemoteFile]
//   - Upload: [Resumer], [AttrUpload]
//   - Upload or Handle: [Filler]
//   - all three: [Located]
//
// There are no other optional interfaces.
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
// Names follow [ValidName]: they are slash-separated and relative, without "." or ".." elements and
// without a NUL. They need not be UTF-8. For any other name, and for a name that the operating
// system cannot represent, the methods return [fs.ErrInvalid].
type Store interface {
	// Open opens a file for reading. For anything but a regular file it returns [ErrNotRegular], so
	// it never has to wait for the other end of a pipe. A store may make the File unusable when ctx
	// ends.
	Open(ctx context.Context, name string) (File, error)

	// Create begins the upload of a file. If the store has directories, the file's directory must
	// exist, unless [Create].Parents is set. The name must be free, or be the name of a regular
	// file.
	Create(ctx context.Context, name string, c Create) (Upload, error)

	// Stat describes a file or a directory. It follows symbolic links.
	Stat(ctx context.Context, name string) (fs.FileInfo, error)
}

// A File is open for reading. It keeps the content that it had at Open, even if an Upload replaces
// the file of that name meanwhile. Only writes in place, through [Tree].OpenFile, may become
// visible in it. Several goroutines may read at once.
type File interface {
	io.ReaderAt
	io.Closer
	Stat() (fs.FileInfo, error)
}

// Create holds the options of an [Upload]. The zero value describes a file of unknown size, which
// replaces an existing file of its name.
type Create struct {
	// Size is the expected number of bytes; 0 or less means unknown. If a store knows that it lacks
	// that much room, it fails at once with ErrNoSpace. It reserves nothing, since a client can
	// announce any size, so the upload may still fail with ErrNoSpace if others fill the store
	// meanwhile. The file may become shorter or longer than Size.
	Size int64

	// Perm holds the permission bits of a new file; 0 means 0o644. They are set exactly, regardless
	// of the umask: a caller that wants the umask to apply must apply it to Perm. A file that
	// replaces another gets the permission bits of the replaced file.
	Perm fs.FileMode

	// Exclusive makes the upload fail if the name exists, both at Create and at Commit.
	Exclusive bool

	// Parents makes the missing directories above the file, if the store supports that; otherwise a
	// missing directory is fs.ErrNotExist, as without Parents. If the upload fails, the directories
	// that it made are removed again, unless they are no longer empty or the process has died.
	Parents bool

	// Resume, if not empty, identifies the uploader, for example by a user name. It makes the
	// upload a [Resumer] if the store supports that. If such an upload is closed before Commit, or
	// its process dies, the store keeps the data that was written without a gap from the start,
	// except perhaps for the last few MiB. The next upload with the same name, the same Resume and
	// the same Size continues after that data. Data beyond a gap is lost. While one such upload is
	// in progress, another one fails with ErrBusy.
	Resume string

	// Source, if not empty, identifies the content of an upload with Resume, for example by the
	// size and the time of the source file. Data that was kept from an upload with another Source
	// is discarded.
	Source string

	// NoSync lets Commit give the file its name without waiting for the disk. The file is complete
	// whatever happens to the process. But if the machine crashes shortly afterwards, all or part
	// of the file may be lost.
	NoSync bool

	// Published, if not nil, is filled in by Commit with the published file, if the store supports
	// that. Only a store on a disk of this machine does. The caller closes it.
	Published *Published
}

// An Upload is a file that is being written. Nobody sees it under its name before Commit, and after
// Commit it is complete. Of two uploads to one name, the last to commit wins.
//
// Several goroutines may write at once, to different offsets. All writes must have returned before
// Truncate, Commit or Close is called.
type Upload interface {
	// WriteAt stores p at off. Gaps that are never written read as zeros.
	io.WriterAt

	// Truncate sets the size, in bytes: it cuts the file, or adds zeros.
	Truncate(size int64) error

	// Commit makes the data durable, then gives the file its name, and ends the Upload. With
	// Exclusive it fails with fs.ErrExist if the name was taken meanwhile. If Commit fails, the
	// file is discarded, with one exception: if only making the new name durable failed, the file
	// may already have its name.
	Commit() error

	// Close discards the file, unless it was committed or can be resumed: see [Create]. Closing
	// again does nothing, so it is safe to defer Close.
	Close() error
}

// Published is a file on the disk, as it was just after an [Upload] gave it its name, or just after
// a [Handle] that had been written to was closed. The zero value means that the file is not known.
type Published struct {
	Info fs.FileInfo // [os.SameFile] distinguishes the file from a later one of the same name
	// When is the time at which Info was taken.
	When time.Time

	// File is open for reading, even after the name has been given to another file. It is nil if
	// the file can only be opened by its path.
	File *os.File

	// Closed, if set, is called when File is closed.
	Closed func()
}

// OrNil returns p, or nil if the file is not known.
func (p *Published) OrNil() *Published {
	if p == nil || p.Info == nil {
		return nil
	}
	return p
}

// Close closes File, if it is set, and then calls Closed, if that is set too. p may be nil. A second
// call does nothing.
func (p *Published) Close() {
	if p == nil || p.File == nil {
		return
	}
	_ = p.File.Close() // an error cannot mean lost data, since the file was only read
	if p.File = nil; p.Closed != nil {
		p.Closed()
	}
}
