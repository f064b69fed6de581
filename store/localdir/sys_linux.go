package localdir

import (
	"cmp"
	"maps"
	"os"
	"path"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/store"
)

// pathOnly opens a directory only to look up names in it, or to describe it. That requires
// permission to search the directory, but not to list it.
const pathOnly = unix.O_PATH | unix.O_DIRECTORY

// timespecs converts two times for utimensat(2). A zero time leaves the file's time unchanged.
func timespecs(atime, mtime time.Time) (ts [2]unix.Timespec, err error) {
	for i, t := range [...]time.Time{atime, mtime} {
		if t.IsZero() {
			ts[i].Nsec = unix.UTIME_OMIT
		} else if ts[i], err = unix.TimeToTimespec(t); err != nil {
			return ts, err
		}
	}
	return ts, nil
}

// futimes sets the times of an open file, even if it has been renamed.
func futimes(f *os.File, atime, mtime time.Time) error {
	ts, err := timespecs(atime, mtime)
	if err != nil {
		return err
	}
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var errno syscall.Errno
	err = c.Control(func(fd uintptr) {
		// Without a path, utimensat changes the file of the descriptor. Package unix has no
		// function for that.
		_, _, errno = unix.Syscall6(unix.SYS_UTIMENSAT, fd, 0, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	})
	if err == nil && errno != 0 {
		err = os.NewSyscallError("utimensat", errno)
	}
	return err
}

// datasync makes the data of f, and its size, durable.
func datasync(f *os.File) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var syncErr error
	err = c.Control(func(fd uintptr) {
		for syncErr = unix.EINTR; syncErr == unix.EINTR; {
			syncErr = unix.Fdatasync(int(fd))
		}
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("fdatasync", syncErr)
}

// startWriteback asks the kernel to start writing the cached data of f to the disk. It does not
// wait for that, unless the device's queue is full.
func startWriteback(f *os.File) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var syncErr error
	err = c.Control(func(fd uintptr) { syncErr = unix.SyncFileRange(int(fd), 0, 0, unix.SYNC_FILE_RANGE_WRITE) })
	if err != nil {
		return err
	}
	return os.NewSyscallError("sync_file_range", syncErr)
}

// space returns the size and the free space of the file system that f is on.
func space(f *os.File) (store.Space, error) {
	c, err := f.SyscallConn()
	if err != nil {
		return store.Space{}, err
	}
	var st unix.Statfs_t
	var statErr error
	err = c.Control(func(fd uintptr) {
		for statErr = unix.EINTR; statErr == unix.EINTR; {
			statErr = unix.Fstatfs(int(fd), &st)
		}
	})
	if err == nil {
		err = os.NewSyscallError("fstatfs", statErr)
	}
	if err != nil {
		return store.Space{}, err
	}
	// Blocks are counted in units of Frsize. Bsize is the best size for transfers.
	size := int64(st.Frsize) //nolint:unconvert // narrower on 32-bit systems
	if size == 0 {
		size = int64(st.Bsize) //nolint:unconvert // the same
	}
	return store.Space{
		Total: bytesOf(st.Blocks, size), Free: bytesOf(st.Bfree, size), Available: bytesOf(st.Bavail, size),
		BlockSize: size,
		Files:     bytesOf(st.Files, 1), FreeFiles: bytesOf(st.Ffree, 1), AvailableFiles: bytesOf(st.Ffree, 1),
		MaxName: int(st.Namelen), ReadOnly: st.Flags&unix.ST_RDONLY != 0,
		ID: uint64(uint32(st.Fsid.Val[0]))<<32 | uint64(uint32(st.Fsid.Val[1])),
	}, nil
}

// birth returns a value that distinguishes the file of that name from earlier files with the same
// inode number.
func (d *Dir) birth(name string) store.Birth {
	dir, err := d.root.OpenFile(path.Dir(name)+"/.", pathOnly, 0)
	if err != nil {
		return store.Birth{}
	}
	defer dir.Close()
	var st unix.Statx_t
	const want = unix.STATX_INO | unix.STATX_BTIME
	err = unix.Statx(int(dir.Fd()), path.Base(name), unix.AT_SYMLINK_NOFOLLOW, want, &st)
	if err != nil || st.Mask&want != want {
		return store.Birth{}
	}
	return store.Birth{
		Device: unix.Mkdev(st.Dev_major, st.Dev_minor),
		Inode:  st.Ino,
		At:     st.Btime.Sec*1e9 + int64(st.Btime.Nsec),
	}
}

// maxExtras is the largest total size, in bytes, of the names of a file's extended attributes, and
// the largest size of each value. Files with larger attributes are not compared, and count as
// different.
const maxExtras = 4 << 10

// sameExtras reports whether two files have the same extended attributes, including access lists.
func sameExtras(a, b *os.File) bool {
	x, err := extras(a)
	if err != nil {
		return false
	}
	y, err := extras(b)
	return err == nil && maps.Equal(x, y)
}

// extras returns the extended attributes of a file, by their names.
func extras(f *os.File) (map[string]string, error) {
	c, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	var failed error
	err = c.Control(func(fd uintptr) {
		var names, value [maxExtras]byte
		n, err := unix.Flistxattr(int(fd), names[:])
		if err == unix.EOPNOTSUPP || err == unix.ENOSYS {
			return
		}
		if failed = err; err != nil {
			return
		}
		for name := range strings.SplitSeq(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
			if name == "" {
				continue
			}
			n, err := unix.Fgetxattr(int(fd), name, value[:])
			if err != nil {
				failed = err
				return
			}
			all[name] = string(value[:n])
		}
	})
	return all, cmp.Or(err, failed)
}
