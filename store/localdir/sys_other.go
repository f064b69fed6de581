//go:build !linux

package localdir

import (
	"io/fs"
	"os"

	"github.com/haul-project/haul/store"
)

const (
	largeFile = 0           // only Linux has this flag
	pathOnly  = os.O_RDONLY // only Linux can open a directory just for looking up names
)

// sameExtras returns true: haul knows of no extended attributes here.
func sameExtras(*os.File, *os.File) bool { return true }

// A dirFile is an open file of a [Dir]. There is no portable way to find out which data is in
// memory, so it is not a TryReader.
type dirFile struct {
	*os.File
	at   *Dir
	name string // in the store
}

func (d *Dir) newFile(f *os.File, name string, _ fs.FileInfo) (store.File, error) {
	return &dirFile{File: f, at: d, name: name}, nil
}

func isLocal(*os.File) bool { return false }

// IdentityOf returns false: files cannot be identified here.
func IdentityOf(fs.FileInfo) (store.Identity, bool) { return store.Identity{}, false }

func datasync(f *os.File) error { return f.Sync() }

// startWriteback does nothing: the system decides when to write.
func startWriteback(*os.File) error { return nil }
