package cache

import (
	"io"
	"os"

	"github.com/haul-project/haul/store"
)

var _ store.PartOpener = (*file)(nil)

// OpenPart opens the file of a block once more, since each reader needs an offset of its own.
// The block keeps its room until end is called.
func (f *file) OpenPart(off, n int64) (part *os.File, length int64, end func(), ok bool) {
	if off < 0 || n <= 0 || off >= f.o.size || f.o.written.Load() || f.ended() != nil {
		return nil, 0, nil, false
	}
	c, index, from := f.o.c, off/blockSize, off%blockSize
	c.mu.Lock()
	b := f.o.blocks[index]
	if b == nil || b.place == nil || !b.checked {
		c.mu.Unlock()
		return nil, 0, nil, false
	}
	f.reach(index)
	b.refs.Add(1)
	c.use(b)
	dir := b.o.dir
	c.mu.Unlock()
	opened, err := c.openFile(b, dir)
	if err == nil {
		if part, ok = store.SystemFile(opened); ok {
			_, err = part.Seek(from, io.SeekStart)
		}
	}
	if err != nil || !ok {
		if opened != nil {
			_ = opened.Close()
		}
		c.done(b)
		return nil, 0, nil, false
	}
	length = min(n, int64(b.size)-from)
	c.count.bytesServed.Add(uint64(length))
	return part, length, func() {
		_ = opened.Close()
		c.done(b)
	}, true
}
