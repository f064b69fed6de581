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
	maxBlocks = 1 << 22 // blocks in the directory
	maxOpen   = 256     // files of blocks that are open

	// openReleased is how many files of blocks are open after Release: the successor may
	// remove them, and does not know that they take space until they are closed.
	openReleased = 16
)

var errNotStored = errors.New("the cache has no room for it")

// add puts a block on the list of those that there are. The caller holds mu.
func (o *object) add(b *block) {
	o.blocks[b.index] = b
	b.place = o.c.blocks.PushFront(b)
}

// use notes that a block is used. The caller holds mu.
func (c *state) use(b *block) {
	if b.place != nil && c.blocks.Front() != b.place {
		c.blocks.MoveToFront(b.place)
	}
	if b.opened != nil && c.open.Front() != b.opened {
		c.open.MoveToFront(b.opened)
	}
}

// detach takes a block from all lists. The caller holds mu, and closes and removes the
// file: its room is given back only then.
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

// closeFile closes the file of a block, which nobody reads. The caller holds mu.
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

// keepOpen notes the open file of a block, and closes others if they are too many. The
// caller holds mu.
func (c *state) keepOpen(b *block, f store.File) {
	b.file = f
	b.try, _ = store.As[store.TryReader](f)
	b.opened = c.open.PushFront(b)
	c.closeSome()
}

// closeSome closes open files that are too many, those used longest ago first. The caller
// holds mu.
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

// done ends a use of a block. A block that was dropped meanwhile goes with the last. The
// caller does not hold mu.
func (c *state) done(b *block) {
	switch {
	case b.refs.Add(-1) > 0:
	case b.dropped.Load():
		c.delete(b)
	case c.isClosed.Load():
		c.mu.Lock()
		defer c.mu.Unlock()
		if b.refs.Load() == 0 { // or its last reader closes it
			c.closeFile(b)
		}
	}
}

// drop takes a block away from readers to come, since it cannot be used. The caller uses
// it itself, and calls done then.
func (c *state) drop(b *block, err error) {
	c.mu.Lock()
	first := b.place != nil
	c.detach(b)
	released := c.disk != nil && !c.writing
	c.mu.Unlock()
	switch {
	case !first, released && errors.Is(err, fs.ErrNotExist): // the successor has removed it
	case errors.Is(err, errBadBlock):
		c.count.corrupt.Add(1)
		c.trouble("a block in the cache is corrupt, and is fetched again", err, "source", b.o.source, "file", b.o.name, "block", b.index)
	default:
		c.count.diskErrors.Add(1)
		c.trouble("a block in the cache cannot be read, and is fetched again", err, "source", b.o.source, "file", b.o.name, "block", b.index)
	}
}

// delete removes a detached block that nobody uses from the disk, and gives its room back.
// The directory of the object goes with its last block. The caller holds neither mu nor
// saving.
func (c *state) delete(b *block) {
	if b.deleted.Swap(true) { // the last reader has left just as the block was dropped
		return
	}
	o := b.o
	o.saving.Lock()
	defer o.saving.Unlock()
	c.mu.Lock()
	c.closeFile(b)
	dir, writing := o.dir, c.writing
	now := o.blocks[b.index]
	replaced := now != nil && now.sum == b.sum // by one that has its file
	c.mu.Unlock()
	if !writing {
		return // the directory is another's
	}
	if !replaced {
		if err := c.disk.remove(dir, b.name()); err != nil {
			// It stays counted, as it still takes the room.
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

// removeDir removes the directory of an object that has no blocks. The caller holds saving.
func (o *object) removeDir(dir string) {
	c := o.c
	err := c.disk.removeObject(dir)
	switch {
	case err == nil:
		c.mu.Lock()
		o.onDisk = false
		c.held -= objectCost
		c.mu.Unlock()
	case !errors.Is(err, fs.ErrExist): // else a block is there that is about to be removed
		c.count.diskErrors.Add(1)
		c.trouble("a directory in the cache cannot be removed", err, "path", dir)
	}
}

// reserve sets aside n bytes of the directory, and removes for that what was not used for
// the longest time. It reports false if there is not so much. The caller does not hold mu.
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

// victim returns the block to be removed next; nil if all are in use. The caller holds mu.
func (c *state) victim() *block {
	for e := c.blocks.Back(); e != nil; e = e.Prev() {
		if b := e.Value.(*block); b.refs.Load() == 0 {
			return b
		}
	}
	return nil
}

// unreserve gives back room that was not used.
func (c *state) unreserve(n int64) {
	c.mu.Lock()
	c.held -= n
	c.mu.Unlock()
}

// store sets room aside for a block that came from the source, and saves it there.
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

// save stores a block that came from the source. The object gets its directory with its
// first block. room is set aside for both; save returns how much of it was not used.
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
		if empty { // a disk may have room for info, and none for blocks
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

// roomFor returns how much is to be set aside for a block. The caller holds mu.
func (o *object) roomFor(n int) int64 {
	if o.onDisk {
		return blockCost(n)
	}
	return blockCost(n) + objectCost
}

// replace takes an object away from readers to come. Those that have it open keep its
// blocks. A new object may have the same identity, so the directory gets another name.
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

// clearGone removes what an object has that was replaced, if nobody reads it any more.
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

// isIntact reports whether the file of a block is as it was when its checksum was right. It
// waits for no disk, since the file is open.
func (c *state) isIntact(b *block, f store.File) bool {
	id := identityOf(f)
	c.mu.Lock()
	defer c.mu.Unlock()
	b.checked = b.checked && id == b.seen
	return b.checked
}

// verify returns errBadBlock for the file of a block that is not what was stored. It reads the
// file if something has changed that, or its attributes, since it was read last.
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

// identityOf returns the identity that a file has now.
func identityOf(f store.File) (id store.Identity) {
	if fi, err := f.Stat(); err == nil {
		id, _ = localdir.IdentityOf(fi)
	}
	return id
}

// put writes a block and opens it, unless too many files are open: then it returns no file.
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

// openFile opens the file of a block, whose directory may have got another name meanwhile, and
// compares its checksum if it has to. A block that cannot be used is dropped.
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

// isOutOfFiles reports whether too many files are open, which says nothing about one of them.
func isOutOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
