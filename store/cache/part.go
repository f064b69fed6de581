package cache

import (
	"os"

	"github.com/haul-project/haul/store"
)

var _ store.PartOpener = (*file)(nil)

// OpenPart returns the file that stores the block with offset off. Only one reader at a time can
// use the offset of an open file, so for further readers the block's file is opened again. The
// block is not removed before end is called.
func (f *file) OpenPart(off, n int64) (part *os.File, length int64, end func(), ok bool) {
	if off < 0 || n <= 0 || off >= f.o.size || f.o.written.Load() || f.ended() != nil {
		return nil, 0, nil, false
	}
	c, index, from := f.o.c, off/blockSize, off%blockSize
	c.mu.Lock()
	b := f.o.blocks[index]
	if b == nil {
		c.mu.Unlock()
		return nil, 0, nil, false
	}
	f.reach(index, true)
	b.refs.Add(1)
	c.use(b)
	c.mu.Unlock()
	opened, end, err := f.borrow(b)
	if err != nil {
		return nil, 0, nil, false // ReadAt will fetch the block again, or return the error
	}
	parts, ok := store.As[store.PartOpener](opened)
	if ok {
		// For files on the disk, end does nothing.
		part, length, _, ok = parts.OpenPart(from, min(n, int64(b.size)-from))
	}
	if !ok {
		end()
		return nil, 0, nil, false
	}
	c.count.bytesServed.Add(uint64(length))
	return part, length, end, true
}

// borrow returns the open file of block b, which the caller is using. The caller may use the file's
// offset until it calls end, which also ends its use of the block. If borrow fails, it has ended
// that use already.
func (f *file) borrow(b *block) (opened store.File, end func(), err error) {
	c := f.o.c
	c.mu.Lock()
	before := b.file // stays open while b is in use
	c.mu.Unlock()
	if before != nil {
		_ = c.isIntact(b, before)
	}
	if err := f.open(b); err != nil {
		c.done(b)
		return nil, nil, err
	}
	c.mu.Lock()
	opened, there, dir := b.file, b.place != nil, b.o.dir
	own := there && b.ready() && !b.lent
	b.lent = b.lent || own
	c.mu.Unlock()
	if own {
		return opened, func() {
			c.mu.Lock()
			b.lent = false
			c.mu.Unlock()
			c.done(b)
		}, nil
	}
	if err = errBadBlock; there {
		opened, err = c.openFile(b, dir)
	}
	if err != nil {
		c.done(b)
		return nil, nil, err
	}
	return opened, func() {
		_ = opened.Close()
		c.done(b)
	}, nil
}
