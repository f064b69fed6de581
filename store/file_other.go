//go:build !linux

package store

import "os"

const largeFile = 0 // only Linux has the flag

// A dirFile is an open file of a [DirStore]. There is no portable way to know what
// is in memory, so it is no TryReader.
type dirFile struct {
	*os.File
	at   *DirStore
	name string // in the store
}

func (d *DirStore) newFile(f *os.File, name string) (File, error) {
	return &dirFile{File: f, at: d, name: name}, nil
}
