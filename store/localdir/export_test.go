package localdir

import (
	"context"
	"io/fs"
)

// Before sets a function to be called before each system call of d that changes something or opens
// a file for reading.
func (d *Dir) Before(f func(call string) error) { d.before = f }

// SetCheckpoint makes resumable uploads wait for the disk every n bytes.
func (d *Dir) SetCheckpoint(n int64) { d.checkpoint = n }

// RootName returns the path of the store.
func (d *Dir) RootName() string { return d.root.Name() }

// ReadDirAtMost is ReadDir with a different bound.
func (d *Dir) ReadDirAtMost(ctx context.Context, name string, most int) ([]fs.DirEntry, error) {
	return d.readDir(ctx, name, most)
}

const (
	WritebackEvery = writebackEvery
	MaxSweepDepth  = maxSweepDepth
)

// SyncWaiting returns how many uploads wait for an fsync of a directory that has not begun.
// SyncDirs returns in how many directories names are being changed. Both count all stores.
func SyncWaiting() (n int) {
	syncs.mu.Lock()
	defer syncs.mu.Unlock()
	for _, s := range syncs.dirs {
		if s.next != nil {
			n += s.next.waiting
		}
	}
	return n
}

func SyncDirs() int {
	syncs.mu.Lock()
	defer syncs.mu.Unlock()
	return len(syncs.dirs)
}
