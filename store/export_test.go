package store

import (
	"context"
	"io/fs"

	"github.com/haul-project/haul/store/internal/rules"
)

// Before has f called ahead of each system call of d that changes something or
// opens what is read.
func (d *DirStore) Before(f func(call string) error) { d.before = f }

// SetCheckpoint has resumable uploads wait for the disk every n bytes.
func (d *DirStore) SetCheckpoint(n int64) { d.checkpoint = n }

// RootName returns where the store is.
func (d *DirStore) RootName() string { return d.root.Name() }

// ReadDirAtMost is ReadDir with another bound.
func (d *DirStore) ReadDirAtMost(ctx context.Context, name string, most int) ([]fs.DirEntry, error) {
	return d.readDir(ctx, name, most)
}

// Used returns how many bytes are charged to m.
func (m *MemStore) Used() int64 { return m.budget.used.Load() }

// SinkUsed returns how many bytes are charged to a Sink.
func SinkUsed(s Store) int64 { return s.(*sink).budget.used.Load() }

// Memory returns what holds the bytes of a file of a MemStore or a Sink, and
// whether that is mapped.
func Memory(f File) (b []byte, mapped bool) {
	x := f.(*memReader).file.block.extent
	return x.data, x.mapped
}

// UploadMemory returns the same of an upload.
func UploadMemory(u Upload) (b []byte, mapped bool) {
	x := u.(*memUpload).block.extent
	return x.data, x.mapped
}

const (
	WritebackEvery = writebackEvery

	MaxSweepDepth = maxSweepDepth
	MaxEntries    = rules.MaxEntries
	MaxFoldDepth  = maxFoldDepth
	MapThreshold  = mapThreshold
	CopyBelow     = copyBelow
	UploadAhead   = uploadAhead
	CanMap        = canMap
)
