package localdir

import (
	"errors"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/internal/localfs"
	"github.com/haul-project/haul/store"
)

var (
	_ store.TryReader  = (*dirFile)(nil)
	_ store.Identifier = (*dirFile)(nil)
)

// largeFile lets 32-bit systems open files of 2 GiB and more. The os package
// sets it in Open, but not in Root.
const largeFile = unix.O_LARGEFILE

// maxIovecs is the kernel's UIO_MAXIOV: the most buffers of one system call.
const maxIovecs = 1024

// A dirFile is an open file of a [Dir], and knows what of it is in memory.
type dirFile struct {
	*os.File
	at   *Dir
	name string          // in the store
	conn syscall.RawConn // File's
	info fs.FileInfo     // when it was opened; nil if nobody looked
	how  atomic.Int32    // nowait until the kernel refuses
}

// How TryReadAt reads.
const (
	nowait int32 = iota // the kernel says what is in memory
	always              // all of it is
	never               // no way to know
)

// newFile returns an open file. fi is what fstat said of it just now, or nil.
func (d *Dir) newFile(f *os.File, name string, fi fs.FileInfo) (store.File, error) {
	c, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &dirFile{File: f, at: d, name: name, conn: c, info: fi}, nil
}

// TryReadAt is one preadv2 with RWF_NOWAIT. It does not allocate.
//
// A file system that does not know RWF_NOWAIT refuses it. On tmpfs, whose
// files are in memory as long as they are not swapped out, it then reads all
// the same; elsewhere (overlayfs, FUSE, NFS) it is errors.ErrUnsupported.
func (f *dirFile) TryReadAt(bufs [][]byte, off int64) (int, error) {
	if off < 0 {
		return 0, f.fail(fs.ErrInvalid)
	}
	t := tryReads.Get().(*tryRead)
	defer t.release()
	n := 0
	for len(bufs) > 0 {
		var want int
		bufs, want = t.fill(bufs)
		if want == 0 {
			continue
		}
		got, err := t.read(f, off+int64(n))
		n += got
		if n > 0 && got < want {
			return n, nil
		}
		if err != nil {
			return 0, f.fail(err)
		}
	}
	return n, nil
}

// OpenPart returns the file itself, which has all bytes in a row.
func (f *dirFile) OpenPart(off, n int64) (part *os.File, length int64, end func(), ok bool) {
	if _, err := f.Seek(off, io.SeekStart); err != nil {
		return nil, 0, nil, false
	}
	return f.File, n, nothing, true
}

func nothing() {}

// Identity identifies the file by what fstat(2) said of it as it was opened.
func (f *dirFile) Identity() (store.Identity, bool) {
	fi, err := f.info, f.conn.Control(func(uintptr) {}) // which fails once f is closed
	if err == nil && fi == nil {
		fi, err = f.Stat()
	}
	if err != nil {
		return store.Identity{}, false
	}
	return IdentityOf(fi)
}

// IdentityOf returns the [store.Identity] of a file as its Stat has described it, or false where
// the system has none.
func IdentityOf(fi fs.FileInfo) (store.Identity, bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return store.Identity{}, false
	}
	return store.Identity{
		Device: uint64(st.Dev), //nolint:unconvert // narrower on mips
		Inode:  st.Ino,
		Size:   st.Size,
		Ctime:  st.Ctim.Nano(), Mtime: st.Mtim.Nano(),
	}, true
}

// fail wraps err, unless it is one that a reader meets every day.
func (f *dirFile) fail(err error) error {
	if err == store.ErrWouldBlock || err == io.EOF || err == errors.ErrUnsupported {
		return err
	}
	return &fs.PathError{Op: "read", Path: f.Name(), Err: err}
}

// A tryRead is the system call of a TryReadAt, kept for the next one.
type tryRead struct {
	iovecs []unix.Iovec
	off    int64
	flags  int
	n      int
	errno  syscall.Errno
	call   func(fd uintptr) // preadv, bound once: a closure per call would allocate
}

var tryReads = sync.Pool{New: func() any {
	t := new(tryRead)
	t.call = t.preadv
	return t
}}

// fill points the iovecs at the first bufs. It returns the others, and how
// many bytes those taken hold.
func (t *tryRead) fill(bufs [][]byte) (rest [][]byte, want int) {
	clear(t.iovecs)
	t.iovecs = t.iovecs[:0]
	for i, b := range bufs {
		if len(t.iovecs) == maxIovecs {
			return bufs[i:], want
		}
		if len(b) == 0 {
			continue
		}
		v := unix.Iovec{Base: unsafe.SliceData(b)}
		v.SetLen(len(b))
		t.iovecs = append(t.iovecs, v)
		want += len(b)
	}
	return nil, want
}

// read reads at off in the way the file allows, and finds out which that is
// when the kernel refuses.
func (t *tryRead) read(f *dirFile, off int64) (int, error) {
	for {
		how := f.how.Load()
		if how == never {
			return 0, errors.ErrUnsupported
		}
		t.off, t.flags = off, 0
		if how == nowait {
			t.flags = unix.RWF_NOWAIT
		}
		// Control keeps a Close in another goroutine from giving the
		// descriptor to another file meanwhile.
		if err := f.conn.Control(t.call); err != nil {
			return 0, fs.ErrClosed
		}
		switch {
		case t.errno == unix.EINTR:
		case how == nowait && (t.errno == unix.EOPNOTSUPP || t.errno == unix.ENOSYS):
			f.how.Store(refused(f.conn))
		case t.errno == unix.EAGAIN:
			return 0, store.ErrWouldBlock
		case t.errno != 0:
			return 0, t.errno
		case t.n == 0:
			return 0, io.EOF
		default:
			return t.n, nil
		}
	}
}

// preadv reads from fd as t says.
func (t *tryRead) preadv(fd uintptr) {
	// The kernel takes an offset as two longs, the second for what does not
	// fit the first.
	low, high := uintptr(t.off), uintptr(uint64(t.off)>>(bits.UintSize-1)>>1)
	trap := uintptr(unix.SYS_PREADV2)
	if t.flags == 0 {
		trap = unix.SYS_PREADV
	}
	n, _, errno := unix.Syscall6(trap, fd,
		uintptr(unsafe.Pointer(unsafe.SliceData(t.iovecs))), uintptr(len(t.iovecs)),
		low, high, uintptr(t.flags))
	t.n, t.errno = int(n), errno
}

// refused returns how to read a file whose file system knows no RWF_NOWAIT.
func refused(c syscall.RawConn) int32 {
	how := never
	_ = c.Control(func(fd uintptr) {
		if localfs.Of(int(fd)) == localfs.RAM {
			how = always
		}
	})
	return how
}

// isLocal reports whether f is on a file system that is known to be of this machine alone.
func isLocal(f *os.File) bool {
	local := false
	if c, err := f.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { local = localfs.Of(int(fd)) != localfs.Unknown })
	}
	return local
}

// release lets go of the caller's buffers and keeps t for another call.
func (t *tryRead) release() {
	clear(t.iovecs)
	t.iovecs = t.iovecs[:0]
	tryReads.Put(t)
}
