package store

import (
	"io/fs"
	"math"
	"sync"
)

// A memUpload gathers a file in a block of memory.
type memUpload struct {
	name string

	// publish takes the finished block over, and frees it if it fails. No
	// lock is held while it runs.
	publish func(*block) error

	mu    sync.Mutex
	block *block // mu: nil once committed or closed
}

func (u *memUpload) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || off > math.MaxInt64-int64(len(p)) {
		return 0, memFail("write", u.name, fs.ErrInvalid)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.block == nil {
		return 0, memFail("write", u.name, fs.ErrClosed)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if err := u.block.extend(off + int64(len(p))); err != nil {
		return 0, memFail("write", u.name, err)
	}
	return copy(u.block.data[off:], p), nil
}

func (u *memUpload) Truncate(size int64) error {
	if size < 0 {
		return memFail("truncate", u.name, fs.ErrInvalid)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.block == nil {
		return memFail("truncate", u.name, fs.ErrClosed)
	}
	if err := u.block.extend(size); err != nil {
		return memFail("truncate", u.name, err)
	}
	u.block.cut(size)
	return nil
}

func (u *memUpload) Commit() error {
	b := u.end()
	if b == nil {
		return memFail("commit", u.name, fs.ErrClosed)
	}
	if err := u.publish(b); err != nil {
		return memFail("commit", u.name, err)
	}
	return nil
}

func (u *memUpload) Close() error {
	if b := u.end(); b != nil {
		b.free()
	}
	return nil
}

// end takes the block away from the upload, which has ended then. It returns
// nil if it had before.
func (u *memUpload) end() *block {
	u.mu.Lock()
	defer u.mu.Unlock()
	b := u.block
	u.block = nil
	return b
}
