package cache

import (
	"errors"
	"io/fs"
	"path"
	"syscall"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

const (
	maxBlocks = 1 << 22 // largest number of blocks in the directory
	maxOpen   = 256     // largest number of blocks whose files are open at the same time

	// openReleased is the largest number of block files that stay open after Release. While a file
	// is open, it uses disk space even if the successor has removed its block, and the successor
	// does not count that space.
	openReleased = 16
)

var errNotStored = errors.New("the cache has no room for it")

// add adds a stored block to the lists of its object and of the cache. The caller holds mu.
func (o *object) add(b *block) {
	o.blocks[b.index] = b
	b.place = o.c.blocks.PushFront(b)
}

// use moves a block to the front of the lists, as the most recently used one. The caller holds mu.
func (c *state) use(b *block) {
	if b.place != nil && c.blocks.Front() != b.place {
		c.blocks.MoveToFront(b.place)
	}
	if b.opened != nil && c.open.Front() != b.opened {
		c.open.MoveToFront(b.opened)
	}
}

// detach removes a block from all lists. The caller holds mu, and afterwards closes and removes the
// block's file. The block's space is free only after that.
func (c *state) detach(b *block) {
	if b.place != nil {
		c.blocks.Remove(b.place)
		b.place = nil
	}
	if b.o.blocks[b.index] == b {
		delete(b.o.blocks, b.index)
	}
	b.dropped.Store(true)
}

// closeFile closes the file of a block, if it is open. The block must not have readers. The caller
// holds mu.
func (c *state) closeFile(b *block) {
	if b.opened != nil {
		c.open.Remove(b.opened)
		b.opened = nil
	}
	if b.file != nil {
		_ = b.file.Close()
		b.file, b.try = nil, nil
	}
}

// keepOpen stores f as the open file of block b, and closes other files if too many are open. The
// caller holds mu.
func (c *state) keepOpen(b *block, f store.File) {
	b.file = f
	b.try, _ = store.As[store.TryReader](f)
	b.opened = c.open.PushFront(b)
	c.closeSome()
}

// closeSome closes block files until no more than the limit are open, beginning with the least
// recently used. The caller holds mu.
func (c *state) closeSome() {
	most := maxOpen
	if !c.writing {
		most = openReleased
	}
	for e := c.open.Back(); e != nil && c.open.Len() > most; {
		b := e.Value.(*block)
		if e = e.Prev(); b.refs.Load() == 0 {
			c.closeFile(b)
		}
	}
}

// done ends one use of a block. If the block was dropped meanwhile, its last user removes it. The
// caller does not hold mu.
func (c *state) done(b *block) {
	switch {
	case b.refs.Add(-1) > 0:
	case b.dropped.Load():
		c.delete(b)
	case c.isClosed.Load():
		c.mu.Lock()
		defer c.mu.Unlock()
		if b.refs.Load() == 0 { // otherwise a new reader uses the block, and the last reader closes its file
			c.closeFile(b)
		}
	}
}

// drop hides an unusable block from later readers. err says why the block is unusable. The caller is
// using the block, and calls done afterwards.
func (c *state) drop(b *block, err error) {
	c.mu.Lock()
	first := b.place != nil
	c.detach(b)
	released := c.disk != nil && !c.writing
	c.mu.Unlock()
	switch {
	case !first, released && errors.Is(err, fs.ErrNotExist): // the block was dropped before, or was removed by the process that took over the directory
	case errors.Is(err, errBadBlock):
		c.count.corrupt.Add(1)
		c.trouble("a block in the cache is corrupt, and is fetched again", err, "source", b.o.source, "file", b.o.name, "block", b.index)
	default:
		c.count.diskErrors.Add(1)
		c.trouble("a block in the cache cannot be read, and is fetched again", err, "source", b.o.source, "file", b.o.name, "block", b.index)
	}
}

// delete removes the file of a detached block that has no users, and frees the block's space. If it
// was the last block of its object, delete removes the object's directory too. The caller holds
// neither mu nor object.saving.
func (c *state) delete(b *block) {
	// If a block is dropped just when its last reader leaves, both that reader and the goroutine
	// that dropped the block call delete.
	if b.deleted.Swap(true) {
		return
	}
	o := b.o
	o.saving.Lock()
	defer o.saving.Unlock()
	c.mu.Lock()
	c.closeFile(b)
	dir, writing := o.dir, c.writing
	now := o.blocks[b.index]
	replaced := now != nil && now.sum == b.sum // another block with the same content uses the same file now
	c.mu.Unlock()
	if !writing {
		return // the directory belongs to another process now
	}
	if !replaced {
		if err := c.disk.remove(dir, b.name()); err != nil {
			// The block stays counted, because its file still uses space.
			c.count.diskErrors.Add(1)
			c.trouble("a block in the cache cannot be removed", err, "path", path.Join(dir, b.name()))
			return
		}
	}
	c.mu.Lock()
	c.held -= b.cost()
	empty := o.onDisk && len(o.blocks) == 0
	c.mu.Unlock()
	if empty {
		o.removeDir(dir)
	}
	c.mu.Lock()
	o.forget()
	c.mu.Unlock()
}

// removeDir removes the directory of an object that has no blocks. The caller holds o.saving.
func (o *object) removeDir(dir string) {
	c := o.c
	err := c.disk.removeObject(dir)
	switch {
	case err == nil:
		c.mu.Lock()
		o.onDisk = false
		c.held -= objectCost
		c.mu.Unlock()
	// ErrExist means that the directory still contains a block, which will be removed soon.
	case !errors.Is(err, fs.ErrExist):
		c.count.diskErrors.Add(1)
		c.trouble("a directory in the cache cannot be removed", err, "path", dir)
	}
}

// reserve reserves n of the bytes that the directory may use. To make room, it removes blocks,
// beginning with the least recently used. It returns false if it cannot make enough room. The
// caller does not hold mu.
func (c *state) reserve(n int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.writing && (c.held+n > c.cfg.Size || c.blocks.Len() >= maxBlocks) {
		b := c.victim()
		if b == nil {
			return false
		}
		c.detach(b)
		c.count.evictions.Add(1)
		c.mu.Unlock()
		c.delete(b)
		c.mu.Lock()
	}
	if c.writing {
		c.held += n
	}
	return c.writing
}

// victim returns the block that should be removed next: the least recently used one that has no
// users, or nil. The caller holds mu.
func (c *state) victim() *block {
	for e := c.blocks.Back(); e != nil; e = e.Prev() {
		if b := e.Value.(*block); b.refs.Load() == 0 {
			return b
		}
	}
	return nil
}

// unreserve gives back n bytes that reserve reserved, but that were not used.
func (c *state) unreserve(n int64) {
	c.mu.Lock()
	c.held -= n
	c.mu.Unlock()
}

// store reserves space for a block that was fetched from the source, and saves the block.
func (o *object) store(t *fetch) error {
	c := o.c
	c.mu.Lock()
	room := o.roomFor(len(t.buf))
	c.mu.Unlock()
	if !c.reserve(room) {
		return errNotStored
	}
	left, err := o.save(t.index, t.buf, t.sum, room)
	c.unreserve(left)
	return err
}

// save writes a fetched block to the disk. For an object's first block it also creates the object's
// directory. `room` is the number of bytes that are reserved for the block and the directory;
// `left` is how many of these bytes were not needed.
func (o *object) save(index int64, data []byte, sum uint32, room int64) (left int64, err error) {
	c := o.c
	c.storing.RLock()
	defer c.storing.RUnlock()
	o.saving.Lock()
	defer o.saving.Unlock()
	b := &block{o: o, index: index, size: len(data), sum: sum}
	left = room - b.cost()
	c.mu.Lock()
	ok, have := c.writing && !o.gone && c.objects[o.id()] == o, o.onDisk
	c.mu.Unlock()
	if !ok || !have && left < objectCost {
		return room, errNotStored
	}
	if !have {
		if err := c.disk.putInfo(o.dir, o.identity); err != nil {
			_ = c.disk.removeObject(o.dir)
			return room, err
		}
		left -= objectCost
		c.mu.Lock()
		o.onDisk = true
		c.mu.Unlock()
	}
	f, err := c.put(o.dir, b, data)
	if err != nil {
		c.mu.Lock()
		empty := len(o.blocks) == 0
		c.mu.Unlock()
		if empty { // a full disk may have had room for the info file, but not for the block
			o.removeDir(o.dir)
		}
		return left + b.cost(), err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b.used = c.now()
	o.add(b)
	if f != nil {
		c.keepOpen(b, f)
	}
	return left, nil
}

// roomFor returns how many bytes to reserve for a block of n bytes. The caller holds mu.
func (o *object) roomFor(n int) int64 {
	if o.onDisk {
		return blockCost(n)
	}
	return blockCost(n) + objectCost
}

// replace hides an outdated object from later readers. Readers that have it open keep its blocks.
// The object's directory is renamed, because a new object with the same identity may need the name.
func (c *state) replace(o *object) {
	c.storing.Lock()
	c.mu.Lock()
	gone := o.gone
	o.gone = true
	if c.objects[o.id()] == o {
		delete(c.objects, o.id())
	}
	move := !gone && o.onDisk && c.writing
	dir := o.dir
	c.mu.Unlock()
	if move {
		if to, err := c.disk.setAside(dir); err == nil {
			c.mu.Lock()
			o.dir = to
			c.mu.Unlock()
		} else {
			c.count.diskErrors.Add(1)
			c.trouble("a directory in the cache cannot be renamed", err, "path", dir)
		}
	}
	c.storing.Unlock()
	c.clearGone(o)
}

// clearGone removes the blocks of a replaced object, if the object has no readers any more.
func (c *state) clearGone(o *object) {
	c.mu.Lock()
	var all []*block
	if o.gone && o.readers == 0 {
		for _, b := range o.blocks {
			c.detach(b)
			if b.refs.Load() == 0 {
				all = append(all, b)
			}
		}
	}
	c.mu.Unlock()
	for _, b := range all {
		c.delete(b)
	}
}

// isIntact reports whether block b is verified, and its file f has not changed since. f is open, so
// isIntact does not wait for the disk.
func (c *state) isIntact(b *block, f store.File) bool {
	id := identityOf(f)
	c.mu.Lock()
	defer c.mu.Unlock()
	b.checked = b.checked && id == b.seen
	return b.checked
}

// verify returns errBadBlock if the file of a block does not have the block's content. It reads the
// file only if the content or the attributes have changed since they were last verified.
func (c *state) verify(b *block, f store.File) error {
	if c.isIntact(b, f) {
		return nil
	}
	id := identityOf(f)
	if err := checkBlock(f, b.size, b.sum); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b.checked, b.seen = true, id
	return nil
}

// identityOf returns the current identity of an open file, or the zero Identity if the system
// provides none.
func identityOf(f store.File) (id store.Identity) {
	if fi, err := f.Stat(); err == nil {
		id, _ = localdir.IdentityOf(fi)
	}
	return id
}

// put writes a block to the disk and opens it. If too many files are open, it returns no file and
// no error.
func (c *state) put(dir string, b *block, data []byte) (store.File, error) {
	if err := c.disk.write(path.Join(dir, b.name()), data); err != nil {
		return nil, err
	}
	f, err := c.disk.openBlock(dir, b.index, b.sum)
	switch {
	case isOutOfFiles(err):
		return nil, nil
	case err != nil:
		_ = c.disk.remove(dir, b.name())
		return nil, err
	}
	b.checked, b.seen = true, identityOf(f)
	return f, nil
}

// openFile opens the file of a block, and verifies its checksum if necessary. If the block is
// unusable, it is dropped. dir is the name of the object's directory, which may have been renamed
// meanwhile.
func (c *state) openFile(b *block, dir string) (store.File, error) {
	f, err := c.disk.openBlock(dir, b.index, b.sum)
	for errors.Is(err, fs.ErrNotExist) {
		c.mu.Lock()
		was := dir
		dir = b.o.dir
		c.mu.Unlock()
		if dir == was {
			break
		}
		f, err = c.disk.openBlock(dir, b.index, b.sum)
	}
	if err == nil {
		if err = c.verify(b, f); err == nil {
			return f, nil
		}
		_ = f.Close()
	}
	if !isOutOfFiles(err) {
		c.drop(b, err)
	}
	return nil, err
}

// isOutOfFiles reports whether an error means that too many files are open. Such an error does not
// mean that the file itself is bad.
func isOutOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
