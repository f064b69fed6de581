//go:build darwin || freebsd || netbsd

package store

import "syscall"

// Birth returns what distinguishes the file of that name from earlier ones.
func (d *DirStore) Birth(name string) Birth {
	fi, err := d.root.Lstat(name)
	if err != nil {
		return Birth{}
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return Birth{}
	}
	return Birth{Inode: inode(fi), At: st.Birthtimespec.Nano()}
}
