package store

import (
	"io/fs"
	"math"
	"path"
	"sync"
	"time"
)

// A memUpload gathers a file in one slice. All of the slice's capacity is
// charged to the store, and the file's overhead.
type memUpload struct {
	store *MemStore
	name  string
	c     Create

	mu   sync.Mutex // taken before store.mu
	data []byte     // mu: from its length to its capacity it holds zeros
	done bool       // mu: committed or closed
}

func (u *memUpload) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || off > math.MaxInt64-int64(len(p)) {
		return 0, memFail("write", u.name, fs.ErrInvalid)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(p) == 0 {
		return 0, u.open("write")
	}
	if err := u.extend("write", off+int64(len(p))); err != nil {
		return 0, err
	}
	return copy(u.data[off:], p), nil
}

func (u *memUpload) Truncate(size int64) error {
	if size < 0 {
		return memFail("truncate", u.name, fs.ErrInvalid)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.extend("truncate", size); err != nil {
		return err
	}
	clear(u.data[size:])
	u.data = u.data[:size]
	return nil
}

func (u *memUpload) Commit() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.open("commit"); err != nil {
		return err
	}
	u.done = true
	m := u.store
	m.mu.Lock()
	defer m.mu.Unlock()
	perm, err := m.target(u.name, u.c)
	if err != nil {
		u.discard()
		return memFail("commit", u.name, err)
	}
	f := &memFile{data: u.fit(), refs: 1, info: memInfo{
		name: path.Base(u.name), size: int64(len(u.data)), mode: perm, modTime: time.Now(),
	}}
	m.put(u.name, f)
	u.data = nil
	return nil
}

func (u *memUpload) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.done {
		return nil
	}
	u.done = true
	u.store.mu.Lock()
	defer u.store.mu.Unlock()
	u.discard()
	return nil
}

// open returns an error if the upload has ended.
func (u *memUpload) open(op string) error {
	if u.done {
		return memFail(op, u.name, fs.ErrClosed)
	}
	return nil
}

// extend makes the file at least end bytes long, for op.
func (u *memUpload) extend(op string, end int64) error {
	if err := u.open(op); err != nil {
		return err
	}
	if end > int64(cap(u.data)) {
		if err := u.grow(end); err != nil {
			return memFail(op, u.name, err)
		}
	}
	u.data = u.data[:max(int64(len(u.data)), end)]
	return nil
}

// grow gives the slice room for end bytes, and for as many again as it had if
// the limit allows: so that growing bit by bit copies each byte but twice.
func (u *memUpload) grow(end int64) error {
	had := int64(cap(u.data))
	room := max(end, 2*had)
	u.store.mu.Lock()
	defer u.store.mu.Unlock()
	if u.store.charge(room-had) != nil {
		room = end
		if err := u.store.charge(room - had); err != nil {
			return err
		}
	}
	data := make([]byte, len(u.data), room)
	copy(data, u.data)
	u.data = data
	return nil
}

// fit returns the data with no room to spare. The caller holds store.mu.
func (u *memUpload) fit() []byte {
	spare := cap(u.data) - len(u.data)
	if spare == 0 {
		return u.data
	}
	u.store.used -= int64(spare)
	data := make([]byte, len(u.data))
	copy(data, u.data)
	return data
}

// discard gives all back. The caller holds store.mu.
func (u *memUpload) discard() {
	u.store.used -= memOverhead + int64(cap(u.data))
	u.data = nil
}
