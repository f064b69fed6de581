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

// largeFile lets 32-bit systems open files of 2 GiB and more. The os package sets this flag in
// Open, but not in the methods of Root.
const largeFile = unix.O_LARGEFILE

// maxIovecs is UIO_MAXIOV of the kernel, the largest number of buffers in one system call.
const maxIovecs = 1024

// A dirFile is an open file of a [Dir]. It can find out which of its data is in memory.
type dirFile struct {
	*os.File
	at   *Dir
	name string          // the file's name in the store
	conn syscall.RawConn // for system calls on File's descriptor
	info fs.FileInfo     // result of fstat when the file was opened; nil if fstat was not called then
	// how is the way in which TryReadAt reads: one of the constants below. It is nowait until the
	// kernel refuses that.
	how atomic.Int32
}

// These are the values of dirFile.how. They say in which way TryReadAt reads.
const (
	nowait int32 = iota // with a flag that makes the kernel return only data in memory
	always              // without that flag, because all data is in memory
	never               // not at all, because there is no way to find out which data is in memory
)

// newFile returns f as a store.File. fi is the result of a recent fstat of f, or nil.
func (d *Dir) newFile(f *os.File, name string, fi fs.FileInfo) (store.File, error) {
	c, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &dirFile{File: f, at: d, name: name, conn: c, info: fi}, nil
}

// TryReadAt makes one call of preadv2 with the flag RWF_NOWAIT. It does not allocate memory.
//
// Some file systems do not support RWF_NOWAIT. On tmpfs, TryReadAt then reads without the flag,
// because files there are in memory unless they are swapped out. On others (overlayfs, FUSE, NFS)
// it returns errors.ErrUnsupported.
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

// OpenPart returns the file itself, because all its bytes are contiguous.
func (f *dirFile) OpenPart(off, n int64) (part *os.File, length int64, end func(), ok bool) {
	if _, err := f.Seek(off, io.SeekStart); err != nil {
		return nil, 0, nil, false
	}
	return f.File, n, nothing, true
}

func nothing() {}

// Identity identifies the file as it was when it was opened, by the result of fstat(2).
func (f *dirFile) Identity() (store.Identity, bool) {
	fi, err := f.info, f.conn.Control(func(uintptr) {}) // Control fails once f is closed
	if err == nil && fi == nil {
		fi, err = f.Stat()
	}
	if err != nil {
		return store.Identity{}, false
	}
	return IdentityOf(fi)
}

// IdentityOf returns the [store.Identity] of the file that fi describes, where fi is the result of
// the file's Stat. It returns false if fi has no data of this system.
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

// fail adds the operation and the path to err, except for the frequent errors, which are returned
// unchanged.
func (f *dirFile) fail(err error) error {
	if err == store.ErrWouldBlock || err == io.EOF || err == errors.ErrUnsupported {
		return err
	}
	return &fs.PathError{Op: "read", Path: f.Name(), Err: err}
}

// A tryRead holds the arguments and the results of the system call of a TryReadAt. Later calls
// reuse it.
type tryRead struct {
	iovecs []unix.Iovec
	off    int64
	flags  int
	n      int
	errno  syscall.Errno
	call   func(fd uintptr) // the method preadv; creating a closure for each call would allocate memory
}

var tryReads = sync.Pool{New: func() any {
	t := new(tryRead)
	t.call = t.preadv
	return t
}}

// fill points the iovecs at the buffers in bufs, as many as fit. It returns the remaining buffers,
// and the total size, in bytes, of those that fit.
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

// read reads at off in the way that f.how says. If the kernel refuses that way, read stores the way
// that works in f.how and tries again.
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
		// Control keeps the descriptor valid during the call: otherwise another goroutine could
		// close the file, and the descriptor could be reused for a different one.
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

// preadv makes the system call that t describes, and stores its results in t.
func (t *tryRead) preadv(fd uintptr) {
	// The kernel takes an offset as two longs. The second one holds the bits that do not fit in the
	// first.
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

// refused returns the value of dirFile.how for a file system that does not support RWF_NOWAIT.
func refused(c syscall.RawConn) int32 {
	how := never
	_ = c.Control(func(fd uintptr) {
		if localfs.Of(int(fd)) == localfs.RAM {
			how = always
		}
	})
	return how
}

// isLocal reports whether f is on a file system that is known to be on this machine.
func isLocal(f *os.File) bool {
	local := false
	if c, err := f.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { local = localfs.Of(int(fd)) != localfs.Unknown })
	}
	return local
}

// release drops t's references to the caller's buffers, and makes t available for another call.
func (t *tryRead) release() {
	clear(t.iovecs)
	t.iovecs = t.iovecs[:0]
	tryReads.Put(t)
}
