package rules

import (
	"cmp"
	"io/fs"
	"slices"
)

// MaxEntries is the largest number of entries that a directory may have to be listed by ReadDir.
const MaxEntries = 65536

// SortEntries sorts the entries of a directory by name.
func SortEntries(entries []fs.DirEntry) {
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
}

// FilePerm returns the permission bits for a new file whose requested bits are perm; 0 means 0o644.
func FilePerm(perm fs.FileMode) fs.FileMode {
	if p := perm.Perm(); p != 0 {
		return p
	}
	return 0o644
}
