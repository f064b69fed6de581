package mux

import (
	"io"
	"slices"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
)

const (
	// aheadGrowth is the factor by which the read-ahead distance grows each time that the reader
	// proves to be reading sequentially.
	aheadGrowth = 4

	// aheadShown says which part of a block a reader has to take to prove that it is reading
	// sequentially: 1/aheadShown of the block's bytes, a quarter.
	aheadShown = 4

	// maxJoin is the length in bytes up to which received data is copied to the end of the previous
	// block. Otherwise a server that answers byte by byte would cost a buffer for each byte.
	maxJoin = 4 << 10
)

// A ReadAhead reads a file ahead of a sequential reader. Its methods must not be called
// concurrently. They take mu.
type ReadAhead struct {
	f     *File
	t     *transfer
	pos   int64 // offset of the next byte that the reader takes
	start int64 // offset at which reading began
	ahead int64 // how many bytes to request from `pos` on
	shown bool  // the reader has taken enough of `block` to prove that it reads sequentially
	block block // the block from which the reader takes bytes

	// Guarded by mu:
	blocks []block // received blocks, in the order of their offsets
	limit  int64   // offset up to which bytes may be requested
	held   int64   // this file's share of bufferUse.held, in bytes
}

// A block holds received bytes that the reader has not taken yet.
type block struct {
	off    int64   // offset in the file of the first byte in b
	b      []byte  // the bytes that the reader has not taken
	size   int     // length of b before the reader took any byte of it
	buffer *Buffer // the buffer that holds b
}

// ReadAhead begins to read at the offset off. It requests the next `ahead` bytes at once.
func (f *File) ReadAhead(off, ahead int64) *ReadAhead {
	r := &ReadAhead{f: f, pos: off, start: off, limit: off, ahead: ahead}
	r.t = &transfer{file: &f.handleSet, sink: r}
	f.mux.mu.Lock()
	defer f.mux.mu.Unlock()
	f.mux.transfers.begin(r.t, pipeline.Config{Offset: off, Size: f.sizeFrom(off), UntilEOF: true})
	r.ask()
	return r
}

// Pos returns the offset of the next byte that the reader takes.
func (r *ReadAhead) Pos() int64 { return r.pos }

// Ahead sets how many bytes to request in advance of the reader.
func (r *ReadAhead) Ahead(n int64) { r.ahead = n }

func (r *ReadAhead) place(pipeline.Request) []byte { return nil }

func (r *ReadAhead) received(now time.Time, id uint32, off int64, buf *Buffer, n int) {
	r.t.plan.Reply(now, id, n)
	r.t.notify()
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
	r.blocks = slices.Insert(r.blocks, i, block{off, buf.Bytes[:n], n, buf})
}

// ask requests the bytes that the reader is likely to read next.
func (r *ReadAhead) ask() {
	m := r.f.mux
	held := &m.buffers.held
	chunk := int64(r.t.plan.Chunk())
	// Requesting more than fits on the path would only use memory.
	r.ahead = min(r.ahead, int64(m.link.Window())+2*chunk)
	want := r.pos + r.ahead
	if over := *held - r.held + (want - r.pos) - int64(m.config.Memory); over > 0 {
		want = max(want-over, r.pos+1) // even without memory, each file may have one request in flight
	}
	want = r.start + (want-r.start+chunk-1)/chunk*chunk
	r.limit = max(r.limit, want)
	*held -= r.held
	r.held = r.limit - r.pos
	*held += r.held
	r.t.plan.Limit(r.limit)
	r.t.advance(time.Now())
}

// Drop stops reading ahead and frees the buffers. No method may be called afterwards.
func (r *ReadAhead) Drop() {
	m := r.f.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	r.t.finish()
	m.buffers.held -= r.held
	r.blocks = append(r.blocks, r.block)
	for _, b := range r.blocks {
		if b.buffer != nil {
			b.buffer.Free()
		}
	}
	r.blocks = nil
}

// Next returns at least one byte at Pos. It waits if no byte has arrived. The result is valid until
// Took has been called for all of its bytes. At the end of the file the error is io.EOF. All other
// errors are of type [*Failure].
func (r *ReadAhead) Next() ([]byte, error) {
	if len(r.block.b) == 0 {
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
	return r.block.b, nil
}

// fill waits until there is a block to read.
func (r *ReadAhead) fill() error {
	m := r.f.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.block.buffer != nil {
		r.block.buffer.Free()
		r.block = block{}
	}
	r.ask()
	for {
		if len(r.blocks) > 0 && r.blocks[0].off == r.pos {
			r.block = r.blocks[0]
			r.blocks = slices.Delete(r.blocks, 0, 1)
			if r.shown = false; len(r.block.b) == 0 {
				r.block.buffer.Free()
				r.block = block{}
				continue
			}
			return nil
		}
		if end, ok := r.t.plan.End(); ok && r.pos >= end {
			return io.EOF
		}
		if r.t.over() {
			local, err := r.t.failure()
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
			return &Failure{r.pos, local, err}
		}
		if err := r.t.wait(r.f.life, r.f.life, time.Time{}); err != nil {
			return &Failure{r.pos, true, err}
		}
	}
}

// Took records that the reader has taken n of the bytes that Next returned.
func (r *ReadAhead) Took(n int) {
	b := &r.block
	b.b, b.off = b.b[n:], b.off+int64(n)
	r.pos += int64(n)
	if !r.shown && len(b.b) <= b.size-b.size/aheadShown {
		r.shown = true
		r.ahead *= aheadGrowth
		r.f.mux.mu.Lock()
		r.ask()
		r.f.mux.mu.Unlock()
	}
}
