package ownfile

import "io/fs"

const noFollow = 0 // not needed, because users need a special right to create symbolic links

func ownerOf(fs.FileInfo) (uid int, names uint64, ok bool) { return 0, 0, false }
