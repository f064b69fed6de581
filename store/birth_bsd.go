//go:build darwin || freebsd || netbsd

package store

import "syscall"

// birth returns what distinguishes the file of that name from earlier ones.
func (d *DirStore) birth(name string) birth {
	fi, err := d.root.Lstat(name)
	if err != nil {
		return birth{}
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return birth{}
	}
	return birth{inode: inode(fi), at: st.Birthtimespec.Nano()}
}
