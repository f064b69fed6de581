//go:build !linux

package localdir

import (
	"io/fs"
	"os"

	"github.com/haul-project/haul/store"
)

const (
	largeFile = 0           // this flag exists on Linux only
	pathOnly  = os.O_RDONLY // only Linux can open a directory just to look up names in it
)

// sameExtras returns true, because haul does not read extended attributes on this system.
func sameExtras(*os.File, *os.File) bool { return true }

// A dirFile is an open file of a [Dir]. It is not a TryReader, because there is no portable way to
// find out which data is in memory.
type dirFile struct {
	*os.File
	at   *Dir
	name string // the file's name in the store
}

func (d *Dir) newFile(f *os.File, name string, _ fs.FileInfo) (store.File, error) {
	return &dirFile{File: f, at: d, name: name}, nil
}

func isLocal(*os.File) bool { return false }

// IdentityOf returns false, because files cannot be identified on this system.
func IdentityOf(fs.FileInfo) (store.Identity, bool) { return store.Identity{}, false }

func datasync(f *os.File) error { return f.Sync() }

// startWriteback does nothing: the system decides when it writes.
func startWriteback(*os.File) error { return nil }
