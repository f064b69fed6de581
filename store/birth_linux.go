package store

import (
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// birth returns what distinguishes the file of that name from earlier ones.
func (d *DirStore) birth(name string) birth {
	dir, err := d.root.OpenFile(path.Dir(name)+"/.", os.O_RDONLY, 0)
	if err != nil {
		return birth{}
	}
	defer dir.Close()
	var st unix.Statx_t
	const want = unix.STATX_INO | unix.STATX_BTIME
	err = unix.Statx(int(dir.Fd()), path.Base(name), unix.AT_SYMLINK_NOFOLLOW, want, &st)
	if err != nil || st.Mask&want != want {
		return birth{}
	}
	return birth{
		device: unix.Mkdev(st.Dev_major, st.Dev_minor),
		inode:  st.Ino,
		at:     st.Btime.Sec*1e9 + int64(st.Btime.Nsec),
	}
}
