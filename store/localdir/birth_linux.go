package localdir

import (
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/store"
)

// Birth returns what distinguishes the file of that name from earlier ones.
func (d *Dir) Birth(name string) store.Birth {
	dir, err := d.root.OpenFile(path.Dir(name)+"/.", os.O_RDONLY, 0)
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
