package ownfile

import "io/fs"

const noFollow = 0 // not needed, because users need a special right to create symbolic links

// OwnerOf returns false, because files have no such owner here.
func OwnerOf(fs.FileInfo) (uid int, names uint64, ok bool) { return 0, 0, false }
