package localdir

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/store"
)

// space returns the size and the free space of the file system that f is on.
func space(f *os.File) (store.Space, error) {
	c, err := f.SyscallConn()
	if err != nil {
		return store.Space{}, err
	}
	var st unix.Statfs_t
	var statErr error
	if err := c.Control(func(fd uintptr) { statErr = unix.Fstatfs(int(fd), &st) }); err != nil {
		return store.Space{}, err
	}
	if statErr != nil {
		return store.Space{}, os.NewSyscallError("fstatfs", statErr)
	}
	size := int64(st.Bsize)
	return store.Space{
		Total: bytesOf(st.Blocks, size), Free: bytesOf(st.Bfree, size), Available: bytesOf(st.Bavail, size),
		BlockSize: size,
		Files:     bytesOf(st.Files, 1), FreeFiles: bytesOf(st.Ffree, 1), AvailableFiles: bytesOf(st.Ffree, 1),
		MaxName: 255, ReadOnly: st.Flags&unix.MNT_RDONLY != 0,
		ID: uint64(uint32(st.Fsid.Val[0]))<<32 | uint64(uint32(st.Fsid.Val[1])),
	}, nil
}
