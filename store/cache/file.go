package cache

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync"

	"github.com/haul-project/haul/store"
)

var (
	_ store.TryReader = (*file)(nil)
	_ store.Versioned = (*file)(nil)
)

// A file is a cached file that one caller has open. It counts as one reader of its object.
type file struct {
	o      *object
	ctx    context.Context // the context of Open
	closed chan struct{}
	once   sync.Once

	at   int64 // index of the block that was read last; -1 before the first read; guarded by state.mu
	span int64 // how many blocks after block `at` are fetched ahead; guarded by state.mu
}

// newFile returns a new reader of an object. The caller holds mu.
func (o *object) newFile(ctx context.Context) *file {
	o.readers++
	return &file{o: o, ctx: ctx, closed: make(chan struct{}), at: -1}
}

func (f *file) Close() error {
	err := f.fail("close", fs.ErrClosed)
	f.once.Do(func() {
		close(f.closed)
		f.o.release()
		err = nil
	})
	return err
}

func (f *file) fail(op string, err error) error {
	return &fs.PathError{Op: op, Path: f.o.name, Err: err}
}

// ended returns the reason why the file can no longer be read, or nil if it can.
func (f *file) ended() error {
	select {
	case <-f.closed:
		return fs.ErrClosed
	default:
	}
	if f.o.c.isClosed.Load() {
		return fs.ErrClosed
	}
	return f.ctx.Err()
}

// still returns an error for operation op if the file can no longer be used.
func (f *file) still(op string) error {
	if err := f.ended(); err != nil {
		return f.fail(op, err)
	}
	return nil
}

// live returns an open file of the source. It is used after the file was written in place through
// the cache: from then on, readers get each write, like readers of a file in a directory.
func (f *file) live() (store.File, error) {
	o, c := f.o, f.o.c
	o.opening.Lock()
	defer o.opening.Unlock()
	c.mu.Lock()
	src := o.live
	if src == nil && len(o.idle) > 0 {
		src, o.idle = o.idle[0], o.idle[1:]
		o.live = src
	}
	c.mu.Unlock()
	if src != nil {
		return src.file, nil
	}
	src, _, err := o.from.openSource(f.ctx, o.name)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	left := o.readers == 0
	if !left {
		o.live = src
	}
	c.mu.Unlock()
	if left { // the last reader has left meanwhile
		src.close()
	}
	return src.file, nil
}

// Stat returns the source's description of the file.
func (f *file) Stat() (fs.FileInfo, error) {
	if err := f.still("stat"); err != nil {
		return nil, err
	}
	if f.o.written.Load() {
		src, err := f.live()
		if err != nil {
			return nil, err
		}
		return src.Stat()
	}
	f.o.c.mu.Lock()
	defer f.o.c.mu.Unlock()
	return f.o.info, nil
}

// Version returns a string that distinguishes this version of the file from all other versions.
func (f *file) Version() string { return f.o.version }

// ReadAt reads at off. If the bytes are not cached, it waits for the source, until the file is
// closed or the context of Open ends.
func (f *file) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, f.fail("read", fs.ErrInvalid)
	}
	for {
		if n > 0 && n == len(p) {
			return n, nil
		}
		at := off + int64(n)
		err := f.ended()
		switch {
		case err != nil:
			return n, f.fail("read", err)
		case f.o.written.Load():
			src, err := f.live()
			if err != nil {
				return n, f.fail("read", err)
			}
			return src.ReadAt(p, off)
		case n == len(p):
			return n, nil
		case at >= f.o.size:
			return n, io.EOF
		}
		index, from := at/blockSize, int(at%blockSize)
		want := min(len(p)-n, blockLen(f.o.size, index)-from)
		got, err := f.readBlock(p[n:n+want], index, from)
		n += got
		if err != nil && !f.o.written.Load() {
			return n, f.fail("read", err)
		}
	}
}

// readBlock reads from one block, beginning at the byte `from` of the block. It may return fewer
// bytes than p can hold.
func (f *file) readBlock(p []byte, index int64, from int) (int, error) {
	c := f.o.c
	for {
		c.mu.Lock()
		first := f.reach(index, true)
		b := f.o.blocks[index]
		if b == nil {
			n, err := f.readFetched(p, index, from)
			if n > 0 || err != nil {
				return n, err
			}
			continue
		}
		if !b.ready() {
			c.mu.Unlock()
			if err := f.open(b); err != nil {
				return 0, err
			}
			continue
		}
		file := b.file
		b.refs.Add(1)
		c.use(b)
		c.mu.Unlock()
		if first && !c.isIntact(b, file) {
			c.done(b)
			continue
		}
		n, err := file.ReadAt(p, int64(from))
		if n < len(p) {
			if err == nil || err == io.EOF {
				err = errBadBlock
			}
			c.drop(b, err)
		}
		c.done(b)
		if n > 0 {
			c.count.bytesServed.Add(uint64(n))
			return n, nil
		}
	}
}

// readFetched reads bytes of a block that is not on the disk but is being fetched. If the byte at
// offset `from` of the block has not arrived yet, it waits. It returns 0 bytes if the caller must
// look for the block again. The caller holds mu, and readFetched unlocks it.
func (f *file) readFetched(p []byte, index int64, from int) (n int, err error) {
	c, t := f.o.c, f.o.request(index, false)
	t.refs++ // keeps the bytes that have arrived in memory, even if the rest fails
	for err == nil && t.filled <= from && t.err == nil && !t.lost {
		t.waiting++
		more := t.progress()
		c.mu.Unlock()
		err = f.await(more)
		c.mu.Lock()
		t.waiting--
	}
	switch {
	case err != nil:
	case t.filled > from && t.buf != nil:
		n = c.copyFetched(t, p, from)
	default:
		err = t.err
	}
	t.refs--
	c.recycle(t)
	c.mu.Unlock()
	return n, err
}

// await waits until done is closed. It returns an error if the file can no longer be read.
func (f *file) await(done <-chan struct{}) error {
	defer store.BeginWait(f.ctx)()
	select {
	case <-done:
		return nil
	case <-f.closed:
		return fs.ErrClosed
	case <-f.ctx.Done():
		return f.ctx.Err()
	case <-f.o.c.ctx.Done():
		return fs.ErrClosed
	}
}

// copyFetched copies to p the bytes of a fetch that have arrived, beginning at offset `from` of the
// block. The caller holds mu, which copyFetched releases for the copy, and is counted in t.refs.
func (c *state) copyFetched(t *fetch, p []byte, from int) int {
	data := t.buf[from:t.filled]
	if t.kept != nil {
		c.kept.MoveToBack(t.kept)
	}
	c.mu.Unlock()
	defer c.mu.Lock()
	n := copy(p, data)
	c.count.bytesServed.Add(uint64(n))
	return n
}

// reach records that the reader is at a block. As long as the reader reads in order, reach requests
// the following blocks ahead, twice as many each time. It opens the next stored block in the
// background if that block's checksum must be verified, or if the reader cannot wait (`waits` is
// false). It reports whether the reader has moved to another block. The caller holds mu.
func (f *file) reach(index int64, waits bool) bool {
	if index == f.at {
		return false
	}
	o, c := f.o, f.o.c
	b, t := o.blocks[index], o.fetches[index]
	if b != nil || t != nil && t.ended {
		c.count.hits.Add(1)
	} else {
		c.count.misses.Add(1)
	}
	if index == f.at+1 {
		f.span = min(max(2*f.span, 1), maxAhead)
	} else {
		f.span = 0
	}
	f.at = index
	if b != nil {
		b.used = c.now()
	}
	last := min(index+f.span, blocksOf(o.size)-1)
	if next := o.blocks[index+1]; next != nil && next.file == nil && next.opening == nil && index < last && (!waits || !next.checked) {
		c.start(func() { _ = f.open(next) })
	}
	if b == nil && index < last {
		o.request(index, true) // queue the reader's own block before those that are fetched ahead
	}
	for i := index + 1; i <= last && len(o.queue) < maxQueue && c.memory < c.cfg.Memory/2; i++ {
		if o.blocks[i] == nil {
			o.request(i, true)
		}
	}
	return true
}

// open opens the file of a block and verifies its checksum if necessary. If another reader is doing
// that already, open waits for it. If the block is unusable, it is dropped. If too many files are
// open, open returns an error.
func (f *file) open(b *block) error {
	c := f.o.c
	c.mu.Lock()
	if wait := b.opening; wait != nil {
		c.mu.Unlock()
		return f.await(wait)
	}
	if b.place == nil || b.ready() {
		c.mu.Unlock()
		return nil
	}
	b.opening = make(chan struct{})
	b.refs.Add(1)
	opened, dir := b.file, b.o.dir
	c.mu.Unlock()
	isNew := opened == nil
	var err error
	if isNew {
		opened, err = c.openFile(b, dir)
	} else if err = c.verify(b, opened); err != nil {
		c.drop(b, err)
	}
	c.mu.Lock()
	if err == nil && isNew {
		c.keepOpen(b, opened)
		c.use(b)
	}
	close(b.opening)
	b.opening = nil
	c.mu.Unlock()
	c.done(b)
	if isOutOfFiles(err) {
		return err
	}
	return nil
}

// A crossing holds the buffers of a TryReadAt that are to be filled from the next block. Crossings
// are reused, to avoid allocations.
type crossing struct{ bufs [][]byte }

var crossings = sync.Pool{New: func() any { return new(crossing) }}

// TryReadAt reads from memory, and from block files that are open. It allocates memory only when
// the reader moves to another block, because it then calls fstat on that block's file.
func (f *file) TryReadAt(bufs [][]byte, off int64) (int, error) {
	if off < 0 {
		return 0, f.fail("read", fs.ErrInvalid)
	}
	if err := f.still("read"); err != nil {
		return 0, err
	}
	if f.o.written.Load() {
		return 0, store.ErrWouldBlock
	}
	if !slices.ContainsFunc(bufs, func(b []byte) bool { return len(b) > 0 }) {
		return 0, nil
	}
	if off >= f.o.size {
		return 0, io.EOF
	}
	if f.o.c.noTries.Load() {
		return 0, errors.ErrUnsupported
	}
	n, err := f.tryBlock(bufs, off)
	at := off + int64(n)
	if n == 0 || at%blockSize != 0 || at == f.o.size {
		return n, err
	}
	// The remaining buffers are filled from the next block.
	x := crossings.Get().(*crossing)
	defer crossings.Put(x)
	rest := n
	for i, b := range bufs {
		if rest < len(b) {
			x.bufs = append(append(x.bufs[:0], b[rest:]), bufs[i+1:]...)
			more, _ := f.tryBlock(x.bufs, at)
			clear(x.bufs)
			return n + more, nil
		}
		rest -= len(b)
	}
	return n, nil
}

// tryBlock reads from one block without waiting, like TryReadAt.
func (f *file) tryBlock(bufs [][]byte, off int64) (int, error) {
	c, index, from := f.o.c, off/blockSize, off%blockSize
	c.mu.Lock()
	first := f.reach(index, false)
	if t := f.o.fetches[index]; t != nil && t.buf != nil && t.filled > int(from) {
		return c.scatter(t, bufs, int(from)), nil
	}
	b := f.o.blocks[index]
	if b == nil || !b.ready() {
		c.mu.Unlock()
		return 0, store.ErrWouldBlock
	}
	if b.try == nil {
		c.mu.Unlock()
		return 0, errors.ErrUnsupported
	}
	try, file := b.try, b.file
	b.refs.Add(1)
	c.use(b)
	c.mu.Unlock()
	if first && !c.isIntact(b, file) { // not verified yet: left to ReadAt, which may wait for the disk
		c.done(b)
		return 0, store.ErrWouldBlock
	}
	n, err := try.TryReadAt(bufs, from)
	if err == errors.ErrUnsupported {
		c.noTries.Store(true)
	} else if err != nil && err != store.ErrWouldBlock {
		// ReadAt will fetch the block again, or return the error.
		c.drop(b, errBadBlock)
		err = store.ErrWouldBlock
	}
	c.done(b)
	c.count.bytesServed.Add(uint64(n))
	return n, err
}

// scatter copies to bufs the bytes of a fetch that have arrived, beginning at offset `from` of the
// block. The caller holds mu, and scatter unlocks it.
func (c *state) scatter(t *fetch, bufs [][]byte, from int) int {
	data := t.buf[from:t.filled]
	t.refs++
	c.mu.Unlock()
	n := 0
	for _, b := range bufs {
		n += copy(b, data[n:])
	}
	c.count.bytesServed.Add(uint64(n))
	c.mu.Lock()
	t.refs--
	c.recycle(t)
	c.mu.Unlock()
	return n
}
