package store

import "syscall"

// birth returns what distinguishes the file of that name from earlier ones.
func (d *DirStore) birth(name string) birth {
	fi, err := d.root.Lstat(name)
	if err != nil {
		return birth{}
	}
	data, ok := fi.Sys().(*syscall.Win32FileAttributeData)
	if !ok {
		return birth{}
	}
	return birth{at: data.CreationTime.Nanoseconds()}
}
