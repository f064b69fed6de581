package rules

import (
	"cmp"
	"io/fs"
	"slices"
)

// MaxEntries is the largest number of entries in a directory that can be listed.
const MaxEntries = 65536

// SortEntries sorts the entries of a directory by name.
func SortEntries(entries []fs.DirEntry) {
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
}

// FilePerm returns the permission bits of a new file: 0 stands for 0o644.
func FilePerm(perm fs.FileMode) fs.FileMode {
	if p := perm.Perm(); p != 0 {
		return p
	}
	return 0o644
}
