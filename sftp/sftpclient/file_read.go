package sftpclient

import (
	"github.com/haul-project/haul/sftp/internal/mux"

	"io"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
)

const (
	// aheadGrowth is by how much more is read ahead each time that a reader has
	// shown that it goes on.
	aheadGrowth = 4

	// aheadShown is which part of a block it takes to show it: a quarter.
	aheadShown = 4

	// maxJoin is how short a piece may be to be copied to the end of the one
	// before: a server that answers byte by byte must not cost a buffer each.
	maxJoin = 4 << 10
)

// A readAhead is a file on its way to a reader that takes it in order. What has
// come, and has not been taken, is in blocks.
type readAhead struct {
	t     *mux.Transfer
	pos   int64 // File.mu: the next byte to be taken
	start int64 // where it began
	ahead int64 // File.mu: how far behind pos to ask
	shown bool  // File.mu: the reader has taken enough of the block to go on
	block block // File.mu: the one that is taken from

	blocks []block // mux.mu: in order of their offsets
	limit  int64   // mux.mu: up to here may be asked
	held   int64   // mux.mu: how much of what all files hold that is
}

// A block is bytes that have come.
type block struct {
	off    int64 // of the first that is left
	b      []byte
	size   int         // how many there were
	buffer *mux.Buffer // that b is in
}

func (r *readAhead) Place(pipeline.Request) []byte { return nil }
func (r *readAhead) Changed() {
	if r.t.Over() {
		r.t.Notify()
	}
}

func (r *readAhead) Received(now time.Time, id uint32, off int64, buf *mux.Buffer, n int) {
	r.t.Plan.Reply(now, id, n)
	r.t.Notify()
	i := len(r.blocks)
	for i > 0 && r.blocks[i-1].off > off {
		i--
	}
	if i > 0 && n <= maxJoin {
		if p := &r.blocks[i-1]; p.off+int64(len(p.b)) == off && cap(p.b)-len(p.b) >= n {
			p.b = append(p.b, buf.Bytes[:n]...)
			p.size = len(p.b)
			buf.Free()
			return
		}
	}
	r.blocks = append(r.blocks, block{})
	copy(r.blocks[i+1:], r.blocks[i:])
	r.blocks[i] = block{off, buf.Bytes[:n], n, buf}
}

// startAhead begins to read at an offset. The caller holds File.mu.
func (f *File) startAhead(off, ahead int64) {
	f.dropAhead()
	r := &readAhead{pos: off, start: off, limit: off, ahead: ahead}
	r.t = &mux.Transfer{File: f.remote, Sink: r}
	f.ahead = r
	m := f.c.mux
	m.Lock()
	defer m.Unlock()
	m.Begin(r.t, pipeline.Config{Offset: off, Size: f.sizeFrom(off), UntilEOF: true})
	f.askAhead(r)
}

// askAhead asks for what a reader may want next. The caller holds File.mu and
// mux.mu.
func (f *File) askAhead(r *readAhead) {
	m, memory := f.c.mux, &f.c.memory
	chunk := int64(r.t.Plan.Chunk())
	// Beyond what the path holds, more would only fill memory.
	r.ahead = min(r.ahead, int64(m.Window())+2*chunk)
	want := r.pos + r.ahead
	if over := memory.held - r.held + (want - r.pos) - int64(f.c.config.Memory); over > 0 {
		want = max(want-over, r.pos+1) // one request is for everybody
	}
	want = r.start + (want-r.start+chunk-1)/chunk*chunk
	r.limit = max(r.limit, want)
	memory.held -= r.held
	r.held = r.limit - r.pos
	memory.held += r.held
	r.t.Plan.Limit(r.limit)
	now := time.Now()
	r.t.Ask(now)
	r.t.Spread()
	m.Serve(now)
}

// dropAhead forgets what was read ahead. The caller holds File.mu.
func (f *File) dropAhead() {
	r := f.ahead
	if r == nil {
		return
	}
	f.ahead = nil
	f.c.mux.Lock()
	defer f.c.mux.Unlock()
	r.t.Finish()
	f.c.memory.held -= r.held
	r.blocks = append(r.blocks, r.block)
	for _, b := range r.blocks {
		if b.buffer != nil {
			b.buffer.Free()
		}
	}
	r.blocks = nil
}

// fill waits until there is a block to take from. At the end of the file it
// returns io.EOF. The caller holds File.mu.
func (f *File) fill(r *readAhead) error {
	m := f.c.mux
	m.Lock()
	defer m.Unlock()
	if r.block.buffer != nil {
		r.block.buffer.Free()
		r.block = block{}
	}
	f.askAhead(r)
	for {
		if len(r.blocks) > 0 && r.blocks[0].off == r.pos {
			r.block = r.blocks[0]
			r.blocks[0] = block{}
			r.blocks = append(r.blocks[:0], r.blocks[1:]...)
			if r.shown = false; len(r.block.b) == 0 {
				r.block.buffer.Free()
				r.block = block{}
				continue
			}
			return nil
		}
		if end, ok := r.t.Plan.End(); ok && r.pos >= end {
			return io.EOF
		}
		if r.t.Over() {
			err, local := r.t.Failure()
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
			return f.failed("read", r.pos, err, local)
		}
		m.Unlock()
		err := r.t.Wait(f.life, f.life, time.Time{})
		m.Lock()
		if err != nil {
			return f.failed("read", r.pos, err, true)
		}
	}
}

// took notes that the reader has taken n bytes of the block. The caller holds
// File.mu.
func (f *File) took(r *readAhead, n int) {
	b := &r.block
	b.b, b.off = b.b[n:], b.off+int64(n)
	r.pos += int64(n)
	if !r.shown && len(b.b) <= b.size-b.size/aheadShown {
		r.shown = true
		r.ahead *= aheadGrowth
		f.c.mux.Lock()
		f.askAhead(r)
		f.c.mux.Unlock()
	}
}

// readAhead reads at off, where the reader is expected to go on. The caller
// holds mu.
func (f *File) readAhead(p []byte, off int64) (n int, err error) {
	r := f.ahead
	if r == nil || r.pos != off {
		f.startAhead(off, int64(max(len(p), f.c.server.Chunk[0])))
		r = f.ahead
	}
	if len(r.block.b) == 0 {
		if err := f.fill(r); err != nil {
			f.dropAhead() // the next try asks again
			return 0, err
		}
	}
	n = copy(p, r.block.b)
	f.took(r, n)
	return n, nil
}

// Read reads what comes next, and reads ahead: see [File].
func (f *File) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.forReading("read", f.pos); err != nil {
		return 0, err
	}
	if err := f.awaitWritesLocked(f.life); err != nil {
		return 0, err
	}
	if f.c.config.NoReadAhead {
		n, err := f.readDirect(p, f.pos)
		f.pos += int64(n)
		if n > 0 && err == io.EOF {
			err = nil
		}
		return n, err
	}
	n, err := f.readAhead(p, f.pos)
	f.pos += int64(n)
	return n, err
}

// ReadAt reads into p what is at off. A large p is filled by many requests at
// once. See [File] about reading ahead.
func (f *File) ReadAt(p []byte, off int64) (n int, err error) {
	if err := f.forReading("read", off); err != nil {
		return 0, err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if f.small != nil {
		return f.readSmall(p, off)
	}
	if f.dirty.Load() {
		if err := f.awaitWrites(f.life); err != nil {
			return 0, err
		}
	}
	if !f.inOrder(off, len(p)) {
		return f.readDirect(p, off)
	}
	defer f.mu.Unlock()
	for n < len(p) && err == nil {
		var some int
		some, err = f.readAhead(p[n:], off+int64(n))
		n += some
	}
	if n == len(p) {
		err = nil
	}
	return n, err
}

// inOrder reports whether a ReadAt is one of several that go through the file
// one after the other. If so, it has locked mu.
func (f *File) inOrder(off int64, n int) bool {
	if f.c.config.NoReadAhead || !f.mu.TryLock() {
		return false
	}
	follows := off == f.next && n <= f.c.config.Memory/4 || f.ahead != nil && f.ahead.pos == off
	f.next = off + int64(n)
	if !follows {
		f.mu.Unlock()
	}
	return follows
}

// WriteTo writes what is left of the file to w, with as much on its way as the
// path holds. Errors are those of FetchTo.
func (f *File) WriteTo(w io.Writer) (n int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.forReading("read", f.pos); err != nil {
		return 0, err
	}
	if err := f.awaitWritesLocked(f.life); err != nil {
		return 0, err
	}
	if f.c.config.NoReadAhead {
		return f.writeToDirect(w)
	}
	if f.ahead == nil || f.ahead.pos != f.pos {
		f.startAhead(f.pos, int64(f.c.config.Memory))
	}
	r := f.ahead
	r.ahead = int64(f.c.config.Memory)
	for {
		if len(r.block.b) == 0 {
			if err := f.fill(r); err != nil {
				f.dropAhead()
				if err == io.EOF {
					return n, nil
				}
				return n, err
			}
		}
		b := r.block.b
		some, err := w.Write(b)
		if err == nil && some < len(b) {
			err = io.ErrShortWrite
		}
		some = min(max(some, 0), len(b))
		f.took(r, some)
		f.pos += int64(some)
		n += int64(some)
		if err != nil {
			return n, &TransferError{Op: "read", Name: f.name, Offset: f.pos, Local: true, Err: err}
		}
	}
}

// writeToDirect is WriteTo without reading ahead.
func (f *File) writeToDirect(w io.Writer) (n int64, err error) {
	b := mux.NewBuffer(f.c.server.Chunk[0])
	defer b.Free()
	for {
		got, err := f.readDirect(b.Bytes[:f.c.server.Chunk[0]], f.pos)
		some, werr := w.Write(b.Bytes[:got])
		f.pos += int64(some)
		n += int64(some)
		switch {
		case werr != nil:
			return n, &TransferError{Op: "read", Name: f.name, Offset: f.pos, Local: true, Err: werr}
		case err == io.EOF:
			return n, nil
		case err != nil:
			return n, err
		}
	}
}

// fetchSmall is FetchTo for a file of which all is here.
func (f *File) fetchSmall(w io.WriterAt, off int64) (int64, error) {
	b := f.small[min(off, int64(len(f.small))):]
	if len(b) == 0 {
		return 0, nil
	}
	n, err := w.WriteAt(b, off)
	if err != nil {
		moved := int64(min(max(n, 0), len(b)))
		return moved, &TransferError{Op: "read", Name: f.name, Offset: off + moved, Local: true, Err: err}
	}
	return int64(len(b)), nil
}

// readSmall is ReadAt for such a file.
func (f *File) readSmall(p []byte, off int64) (int, error) {
	n := copy(p, f.small[min(off, int64(len(f.small))):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
