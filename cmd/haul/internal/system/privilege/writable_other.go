//go:build !unix

package privilege

import "io/fs"

// CheckWritable says why this process may not add files to a directory, or returns nil.
// Where permissions are lists, only an attempt would show it.
func CheckWritable(string) error { return nil }

func ownerOf(fs.FileInfo) (uid int, names uint64, ok bool) { return 0, 0, false }
