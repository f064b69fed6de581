//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package store

import "io/fs"

func systemDetails(fs.FileInfo) (Details, bool) { return Details{}, false }
