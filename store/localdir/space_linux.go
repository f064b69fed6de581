package localdir

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/store"
)

// space describes the file system that f is on.
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
	// Frsize is what blocks are counted in; Bsize, what is best to transfer.
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
