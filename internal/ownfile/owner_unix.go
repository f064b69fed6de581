//go:build unix

package ownfile

import (
	"io/fs"
	"syscall"
)

// noFollow is the flag that makes opening a file fail if the file is a symbolic link.
const noFollow = syscall.O_NOFOLLOW

// OwnerOf returns the owner of a file, and the number of its names (hard links). ok is false if they are not
// known.
func OwnerOf(info fs.FileInfo) (uid int, names uint64, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(st.Uid), uint64(st.Nlink), true //nolint:unconvert // Nlink has another size on other systems
}
