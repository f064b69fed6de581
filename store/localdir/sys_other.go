//go:build !linux

package localdir

import (
	"io/fs"
	"os"

	"github.com/haul-project/haul/store"
)

const (
	largeFile = 0           // only Linux has the flag
	pathOnly  = os.O_RDONLY // nor is there one of those that open no more than the name
)

// sameExtras has nothing to compare: there are no extended attributes that haul knows of.
func sameExtras(*os.File, *os.File) bool { return true }

// A dirFile is an open file of a [Dir]. There is no portable way to know what
// is in memory, so it is no TryReader.
type dirFile struct {
	*os.File
	at   *Dir
	name string // in the store
}

func (d *Dir) newFile(f *os.File, name string, _ fs.FileInfo) (store.File, error) {
	return &dirFile{File: f, at: d, name: name}, nil
}

func isLocal(*os.File) bool { return false }

// IdentityOf returns false: no identity is known of files here.
func IdentityOf(fs.FileInfo) (store.Identity, bool) { return store.Identity{}, false }

func datasync(f *os.File) error { return f.Sync() }

// startWriteback does nothing: the system begins when it sees fit.
func startWriteback(*os.File) error { return nil }
