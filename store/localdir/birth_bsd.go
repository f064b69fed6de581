//go:build darwin || freebsd || netbsd

package localdir

import (
	"syscall"

	"github.com/haul-project/haul/store"
)

// birth returns a value that distinguishes the file of that name from earlier files with the same
// inode number.
func (d *Dir) birth(name string) store.Birth {
	fi, err := d.root.Lstat(name)
	if err != nil {
		return store.Birth{}
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return store.Birth{}
	}
	return store.Birth{Inode: inode(fi), At: st.Birthtimespec.Nano()}
}
