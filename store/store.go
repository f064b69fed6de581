// Package store keeps files: it opens them for reading, and takes new ones
// such that a reader never sees half of one.
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
// Package localdir keeps files in a directory, and [Mem] in memory. [Sink] keeps none: it
// hands each upload to the program. [Layers] searches several stores, and [FoldCase]
// finds names that are spelled in another case. All but Sink pass storetest.Run,
// and so should any other [Store].
//
// A [Tree] is a Store whose directories, links and attributes can be changed
// too, and whose files can be written in place. Those of localdir and Mem pass
// storetest.RunTree; [ReadOnly], [UploadOnly] and similar views allow a part of it.
//
// A program that answers requests with content of its own writes a Store whose
// Open returns [FromBytes] or [NewFile].
//
// # Optional capabilities
//
// [CapabilitiesOf] returns what a Store can do besides its methods, for example list
// directories. What a File, a Handle or an Upload can do besides its methods, [As] finds:
//
//   - File: [TryReader], [Identifier], [Versioned], [PartOpener], [RemoteFile]
//   - Upload: [Resumer], [AttrUpload]
//   - Upload or Handle: [Filler]
//   - all three: [Located]
//
// These, and the method Capabilities of a Store, are all the optional interfaces there are.
//
// # Errors
//
// An error says what was attempted on which name, and wraps its reason. To
// errors.Is the reason is [fs.ErrNotExist], [fs.ErrExist], [fs.ErrPermission],
// [fs.ErrInvalid], [fs.ErrClosed], [ErrNotRegular], [ErrNoSpace] or
// [ErrUnavailable] where one of them fits. An error number of the operating system stays in
// the chain too, so that errors.Is(err, syscall.ENOSPC) also holds.
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
// Names are as [ValidName] says: slash-separated, relative, without "." or ".." and
// without a NUL. They need not be UTF-8. Any other name, and a name that the operating
// system cannot hold, is [fs.ErrInvalid].
type Store interface {
	// Open opens a file for reading. It never waits for a peer at the
	// other end of a pipe: anything but a regular file is [ErrNotRegular].
	// A store may end the File when ctx ends.
	Open(ctx context.Context, name string) (File, error)

	// Create begins a file. Its directory must exist if the store has
	// directories, unless [Create].Parents asks for it. The name must be that
	// of a regular file, or free.
	Create(ctx context.Context, name string, c Create) (Upload, error)

	// Stat describes a file or a directory. It follows symbolic links.
	Stat(ctx context.Context, name string) (fs.FileInfo, error)
}

// A File is open for reading. Its content is the content that the name had at
// Open, even when an Upload replaces it meanwhile; only what is written in
// place, through [Tree].OpenFile, may show. Several goroutines may read at once.
type File interface {
	io.ReaderAt
	io.Closer
	Stat() (fs.FileInfo, error)
}

// Create says how to begin an [Upload]. The zero value asks for a file of
// unknown size which replaces the one that has its name.
type Create struct {
	// Size is how many bytes are expected; 0 or less means unknown. A store
	// that knows that it lacks this room fails at once with ErrNoSpace.
	// It reserves nothing, since a peer can announce any size; so the
	// upload may still fail with ErrNoSpace when others fill the store
	// meanwhile. The file may become shorter or longer than Size.
	Size int64

	// Perm holds the permission bits of a new file; 0 means 0o644. They are
	// set exactly, whatever the umask: a caller that obeys the umask applies it first.
	// A file that replaces another gets that file's bits.
	Perm fs.FileMode

	// Exclusive refuses a name that exists, now or at Commit.
	Exclusive bool

	// Parents makes the missing directories above the file, if the store
	// supports it; otherwise a missing directory is fs.ErrNotExist, as without Parents. An
	// upload that fails removes them again, unless there is something in them by then, or the
	// process has died.
	Parents bool

	// Resume, if not empty, says who uploads, such as a user's name, and
	// makes the upload a [Resumer] if the store supports it. If it is closed, or its process
	// dies, before Commit, it leaves what was written without a gap from the start, up to the
	// last few MiB; the next upload to the same name, with the same Resume and the same
	// Size, continues from there. While one is under way, another is ErrBusy.
	// Pieces written beyond a gap are lost.
	Resume string

	// Source, if not empty, identifies the content of an upload with Resume,
	// such as by the size and the time of the file that is sent: what was written
	// for another Source is discarded.
	Source string

	// NoSync lets Commit give the file its name without waiting for the disk.
	// The file is whole whatever happens to the process, but may be lost, in full or in part,
	// if the machine goes down in the moments after.
	NoSync bool

	// Published, if not nil, is set by Commit to the file as it has been published, if the
	// store knows it: it is on a disk of this machine, and the store keeps such descriptions.
	// The caller closes it.
	Published *Published
}

// An Upload is a file being written. It is not visible under its name until
// Commit, and after Commit all of it is. Of two uploads to one name, the last
// to commit wins.
//
// Several goroutines may write at once, to different offsets; all must be
// done before Truncate, Commit or Close is called.
type Upload interface {
	// WriteAt stores p at off. Gaps that are never written read as zeros.
	io.WriterAt

	// Truncate sets the size, in bytes: it cuts, or adds zeros.
	Truncate(size int64) error

	// Commit makes the file durable, then gives it its name, and ends the
	// Upload. With Exclusive it fails with fs.ErrExist if the name was
	// taken meanwhile. When Commit fails the file is discarded; only if
	// making the new name itself durable failed may it be there already.
	Commit() error

	// Close discards the file unless it was committed, or can be resumed:
	// see [Create]. Closing again does nothing, so that it is safe to defer.
	Close() error
}

// Published is a file on the disk as it was when an [Upload] had just given it its name, or
// when a [Handle] that has written it was closed. The zero value is not known.
type Published struct {
	Info fs.FileInfo // [os.SameFile] distinguishes it from a later file of the same name
	When time.Time

	// File is open for reading, even after the name has gone to another file. It is nil if
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
	_ = p.File.Close() // it was read
	if p.File = nil; p.Closed != nil {
		p.Closed()
	}
}
