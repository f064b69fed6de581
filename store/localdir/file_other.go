//go:build !linux

package localdir

import (
	"os"

	"github.com/haul-project/haul/store"
)

const largeFile = 0 // only Linux has the flag

// A dirFile is an open file of a [Dir]. There is no portable way to know what
// is in memory, so it is no TryReader.
type dirFile struct {
	*os.File
	at   *Dir
	name string // in the store
}

func (d *Dir) newFile(f *os.File, name string) (store.File, error) {
	return &dirFile{File: f, at: d, name: name}, nil
}
