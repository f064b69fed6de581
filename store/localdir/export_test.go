package localdir

import (
	"context"
	"io/fs"
)

// Before has f called ahead of each system call of d that changes something or
// opens what is read.
func (d *Dir) Before(f func(call string) error) { d.before = f }

// SetCheckpoint has resumable uploads wait for the disk every n bytes.
func (d *Dir) SetCheckpoint(n int64) { d.checkpoint = n }

// RootName returns where the store is.
func (d *Dir) RootName() string { return d.root.Name() }

// ReadDirAtMost is ReadDir with another bound.
func (d *Dir) ReadDirAtMost(ctx context.Context, name string, most int) ([]fs.DirEntry, error) {
	return d.readDir(ctx, name, most)
}

const (
	WritebackEvery = writebackEvery
	MaxSweepDepth  = maxSweepDepth
)

// SyncWaiting returns how many wait for an fsync of a directory that has not begun, and
// SyncDirs how many directories names are changed in, of all stores.
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
