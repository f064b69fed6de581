// Package store keeps files: it opens them for reading, and takes new ones in
// so that a reader never sees half of one.
//
// A file is read at offsets, by as many readers as like:
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
// Package localdir keeps files in a directory, [Mem] in memory. [Sink] keeps none: it
// hands each upload to the program. [Layers] searches several stores, and [FoldCase]
// finds names that are spelled in another case. All but Sink pass storetest.Run,
// and so should any other [Store].
//
// A [Tree] is a Store whose directories, links and attributes can be changed
// too, and whose files can be written in place. Those of localdir and Mem are, and pass
// storetest.RunTree; [ReadOnly] and [UploadOnly] allow a part of it.
//
// A program that answers requests with content of its own writes a Store whose
// Open returns [FromBytes] or [NewFile].
//
// A store may also be a [Lister], and a file a [TryReader]; a caller that has a use for
// that asks by a type assertion.
//
// # Errors
//
// An error says what was attempted on which name, and wraps its reason. To
// errors.Is that is [fs.ErrNotExist], [fs.ErrExist], [fs.ErrPermission],
// [fs.ErrInvalid], [fs.ErrClosed], [ErrNotRegular], [ErrNoSpace] or
// [ErrUnavailable] where one of them fits. An error number of the operating system stays in the chain beside
// it, so that errors.Is(err, syscall.ENOSPC) holds too.
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

// A Store holds files. Any goroutine may call its methods.
//
// Names are as [ValidName] says: slash-separated, relative, without "." or ".." and
// without a NUL. They need not be UTF-8. A name that is not so, or that the operating
// system could not hold, gives [fs.ErrInvalid].
type Store interface {
	// Open opens a file for reading. It never waits for a peer at the
	// other end of a pipe: what is not a regular file is [ErrNotRegular].
	// A store may end the File when ctx ends.
	Open(ctx context.Context, name string) (File, error)

	// Create begins a file. Its directory must exist if the store has
	// directories, unless it is to be made: see [Create]. The name must be that
	// of a regular file, or free.
	Create(ctx context.Context, name string, c Create) (Upload, error)

	// Stat describes whatever has the name, a directory included.
	Stat(ctx context.Context, name string) (fs.FileInfo, error)
}

// A File is open for reading. Its content is the content the name had at
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
	// that has no room for so many fails at once with ErrNoSpace, as far as it
	// knows. It reserves nothing, since a peer can announce any size; so the
	// upload may still fail with ErrNoSpace when others fill the store
	// meanwhile. The file may become shorter or longer than Size.
	Size int64

	// Perm holds the permission bits of a new file; 0 means 0o644. They are
	// set exactly, whatever the umask: who wants it obeyed masks them first.
	// A replaced file passes its own bits on instead.
	Perm fs.FileMode

	// Exclusive refuses a name that exists, now or at Commit.
	Exclusive bool

	// Parents makes the directories above the file that are missing, if the store
	// can do that; else that they are is fs.ErrNotExist, as without it. An upload
	// that fails leaves none, unless there is something in it by then, or the
	// process has died.
	Parents bool

	// Resume, if not empty, says who uploads, such as a user's name, and
	// makes the upload one that can be resumed later, if the store can do that:
	// then it is a [Resumer]. Closed, or its process dead, before Commit, it
	// leaves what was written without a gap from the start, up to the last few
	// MiB; the next upload to the same name, by the same one and of the same
	// Size, resumes from there. As long as one is under way, another is ErrBusy.
	// Pieces written ahead of a gap are lost.
	Resume string

	// Source, if not empty, says of which content an upload with Resume is,
	// such as the size and the time of the file that is sent: what was written
	// for another Source is given up.
	Source string

	// NoSync lets Commit give the file its name without waiting for the disk.
	// It is whole whatever happens to the process, but may be lost, or in part,
	// if the machine goes down in the moments after.
	NoSync bool
}

// An Upload is a file being written. It does not show under its name until
// Commit, and after Commit all of it does. Of two uploads to one name, the last
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

	// Close discards the file unless it was committed, or is to be resumed:
	// see [Create]. Closing again does nothing, so that it is safe to defer.
	Close() error
}

// An AttrUpload is an [Upload] that takes attributes before it has its name, so
// that it never shows without them.
type AttrUpload interface {
	Upload

	// SetAttr sets the mode and the times that the file gets by Commit, in
	// place of those that it would have. The size is Truncate's, and an owner
	// is errors.ErrUnsupported.
	SetAttr(a Attr) error
}

// A PermUpload is an [Upload] that knows the permission bits which the file gets by Commit,
// unless others are set: see [AttrUpload].
type PermUpload interface {
	Upload
	Perm() fs.FileMode
}

// A ReadableUpload is an [Upload] that can be read before it is committed.
type ReadableUpload interface {
	Upload

	// Open opens what was written so far for reading. Behind the last byte
	// that was written there may be zeros. ctx is that of [Store].Open.
	Open(ctx context.Context) (File, error)
}

// A Resumer is an [Upload] that was begun with [Create.Resume], by a store that
// can do that.
type Resumer interface {
	Upload

	// Resumed returns how many bytes, from the start, are there from before:
	// writing continues behind them. They are what was written then, whatever
	// happened to the process or the machine. The sender has to know whether
	// the file still has the same bytes.
	Resumed() int64

	// Discard ends the upload and keeps nothing. To Discard one that has
	// ended does nothing.
	Discard() error
}

// A TryReader is a [File] that can be read without waiting. A loop that must
// never wait for a disk tries first, and leaves what ErrWouldBlock says to a
// goroutine that may.
type TryReader interface {
	// TryReadAt fills bufs in order with the bytes at off that are in memory,
	// and returns how many it read. Fewer than bufs hold means that the rest
	// is not in memory, or that the file ends there: the next call shows which.
	// An error comes only with 0 bytes: [ErrWouldBlock]; io.EOF at the end;
	// errors.ErrUnsupported, then and ever after, if the file system cannot
	// say what is in memory, and ReadAt is the only way; or that the file
	// was closed, or could not be read.
	TryReadAt(bufs [][]byte, off int64) (int, error)
}

// An Identity is the same for two open files only if they have the same
// content. It is comparable.
type Identity struct {
	Device, Inode uint64
	Size          int64
	Ctime, Mtime  int64 // Unix nanoseconds
}

// Digest returns a hash of i that may be made public: two files have the same one
// only if their Identity is the same, and it does not reveal the inode. It is the
// same in every process.
func (i Identity) Digest() [sha256.Size]byte {
	var b [5 * 8]byte
	for n, v := range [...]uint64{i.Device, i.Inode, uint64(i.Size), uint64(i.Ctime), uint64(i.Mtime)} {
		binary.BigEndian.PutUint64(b[8*n:], v)
	}
	return sha256.Sum256(b[:])
}

// Changed returns when the file was changed last, its attributes included. The
// system keeps this time, and lets no program set it. A file that changes twice
// between two ticks of the system's clock may have one Identity for two contents:
// so i is only good for later once some ticks have passed.
func (i Identity) Changed() time.Time { return time.Unix(0, i.Ctime) }

// An Identifier is a [File] that can say whether another is the same. Of several
// that are the same, one may be read for all, as long as it is open: data written
// into the file meanwhile shows or does not, as it would. So an Identifier does not
// end with the context that it was opened with: [SharedFiles] gives it to others.
type Identifier interface {
	// Identity returns false where the system has none.
	Identity() (Identity, bool)
}

// A Versioned is a [File] that knows which version of its content it reads, in the terms
// of its server: two files of one name and size have the same version only if they have
// the same content. It is "" if nothing distinguishes the versions. An [fs.FileInfo] may
// be a Versioned too.
type Versioned interface {
	Version() string
}

// SystemFile returns the file of the operating system that f is, for callers that have the
// kernel send it (sendfile). It returns false if f is none. It is f's to close.
//
// A type around an *os.File would do for package net, but not for all others that
// ask for a file: it has its WriteTo, too, and so might be anything.
func SystemFile(f File) (*os.File, bool) {
	switch f := f.(type) {
	case *os.File:
		return f, true
	case interface{ SystemFile() *os.File }:
		return f.SystemFile(), true
	}
	return nil, false
}

// A PartOpener is a [File] whose bytes are in several files of the operating system, for
// callers that have the kernel send them (sendfile).
type PartOpener interface {
	// OpenPart returns a file that has the bytes at off. It is at their place, and that
	// offset is the caller's until they call end; the file is not theirs to close. It has
	// length of these bytes in a row, at most n. It returns false where there is
	// none at the moment: ReadAt reads, or waits for, these bytes.
	OpenPart(off, n int64) (part *os.File, length int64, end func(), ok bool)
}

// A Located is a [File], a [Handle] or an [Upload] that knows its place on the disk.
type Located interface {
	// Location returns the path by which it was opened, for people: symbolic
	// links are not resolved. It is empty where the place is not known.
	Location() string
}

// LocationOf returns the path on the disk of a [File], a [Handle] or an [Upload],
// for a log. It is empty for a file that is not on the disk, or does not know its place.
func LocationOf(f any) string {
	if l, ok := f.(Located); ok {
		return l.Location()
	}
	return ""
}

// Published is a file on the disk as it was when an [Upload] had just given it its name, or
// when a [Handle] that has written it was closed.
type Published struct {
	Info fs.FileInfo // of two files that have had the name, [os.SameFile] finds the one
	When time.Time

	// File is open for reading, whatever has the name by now. It is nil where only the path
	// leads there. Close closes it.
	File *os.File

	// Closed, if set, is called when File is closed.
	Closed func()
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

// PublishedBy returns what an [Upload] has published, once; the caller closes it. It is nil
// before, and where the store does not know: see the method Published, which an Upload may have.
func PublishedBy(u Upload) *Published {
	if p, ok := u.(interface{ Published() *Published }); ok {
		return p.Published()
	}
	return nil
}

// Attr is what [Tree.SetAttr] changes. A nil pointer and a zero time leave what
// they stand for as it is. Each is tried, whatever becomes of the others, and the
// error is the first: the size, so that a file which becomes read-only can still be
// cut, the mode, the times, and the owner last. Only what no file can have, such as
// a size below zero, changes nothing.
type Attr struct {
	// Size in bytes, of regular files only: what is cut is gone, what is
	// added is zeros.
	Size *int64

	// UID and GID are the numbers of the owner and the group. It takes the
	// privileges that the operating system asks for.
	UID, GID *uint32

	// Mode holds the permission bits; 0 is as good as any. The setuid,
	// setgid and sticky bits are not taken from it unless the store says so.
	Mode *fs.FileMode

	AccessTime, ModTime time.Time
}

// Check returns fs.ErrInvalid if no file can have such attributes.
func (a Attr) Check() error {
	if a.Size != nil && *a.Size < 0 {
		return fs.ErrInvalid
	}
	return nil
}

// ChangesOwner reports whether a changes the owner or the group.
func (a Attr) ChangesOwner() bool { return a.UID != nil || a.GID != nil }

// Details are what a file is described by besides its [fs.FileInfo].
type Details struct {
	UID, GID   uint32
	Links      uint64 // names that the file has
	AccessTime time.Time
}

// A Birth distinguishes a file from an earlier one whose inode it was given. It is
// comparable, and zero where the system has none. A [Tree] may have a method Birth
// that returns it for a name, without following a link.
type Birth struct {
	Device, Inode uint64
	At            int64 // Unix nanoseconds
}
