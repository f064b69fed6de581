package store

import "syscall"

// Birth returns what distinguishes the file of that name from earlier ones.
func (d *DirStore) Birth(name string) Birth {
	fi, err := d.root.Lstat(name)
	if err != nil {
		return Birth{}
	}
	data, ok := fi.Sys().(*syscall.Win32FileAttributeData)
	if !ok {
		return Birth{}
	}
	return Birth{At: data.CreationTime.Nanoseconds()}
}
