package sftpclient

import (
	"io"
	"slices"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
	"github.com/haul-project/haul/sftp/internal/mux"
)

const (
	// aheadGrowth is by how much more is read ahead each time that a reader has
	// shown that it continues.
	aheadGrowth = 4

	// aheadShown is which part of a block it takes to show it: a quarter.
	aheadShown = 4

	// maxJoin is how short a piece may be to be copied to the end of the one
	// before: a server that answers byte by byte must not cost a buffer each.
	maxJoin = 4 << 10
)

// A readAhead reads a file for a reader that takes it in order. Data that has come, and
// has not been taken, is in blocks.
type readAhead struct {
	f     *openedFile
	t     *mux.Transfer
	pos   int64 // File.mu: the next byte to be taken
	start int64 // where it began
	ahead int64 // File.mu: how far behind pos to ask
	shown bool  // File.mu: the reader has taken enough of the block for more to be asked
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
	r.blocks = slices.Insert(r.blocks, i, block{off, buf.Bytes[:n], n, buf})
}

// newReadAhead begins to read at an offset.
func (f *openedFile) newReadAhead(off, ahead int64) *readAhead {
	r := &readAhead{f: f, pos: off, start: off, limit: off, ahead: ahead}
	r.t = &mux.Transfer{File: f.remote, Sink: r}
	m := f.c.mux
	m.Lock()
	defer m.Unlock()
	m.Begin(r.t, pipeline.Config{Offset: off, Size: f.sizeFrom(off), UntilEOF: true})
	r.ask()
	return r
}

// ask asks for what a reader may want next. The caller holds File.mu and
// mux.mu.
func (r *readAhead) ask() {
	m, memory := r.f.c.mux, &r.f.c.memory
	chunk := int64(r.t.Plan.Chunk())
	// Beyond what the path holds, more would only fill memory.
	r.ahead = min(r.ahead, int64(m.Window())+2*chunk)
	want := r.pos + r.ahead
	if over := memory.held - r.held + (want - r.pos) - int64(r.f.c.config.Memory); over > 0 {
		want = max(want-over, r.pos+1) // one request is for everybody
	}
	want = r.start + (want-r.start+chunk-1)/chunk*chunk
	r.limit = max(r.limit, want)
	memory.held -= r.held
	r.held = r.limit - r.pos
	memory.held += r.held
	r.t.Plan.Limit(r.limit)
	r.t.Advance(time.Now())
}

// drop forgets what was read ahead. The caller holds File.mu.
func (r *readAhead) drop() {
	r.f.c.mux.Lock()
	defer r.f.c.mux.Unlock()
	r.t.Finish()
	r.f.c.memory.held -= r.held
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
func (r *readAhead) fill() error {
	f, m := r.f, r.f.c.mux
	m.Lock()
	defer m.Unlock()
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
		if end, ok := r.t.Plan.End(); ok && r.pos >= end {
			return io.EOF
		}
		if r.t.Over() {
			local, err := r.t.Failure()
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
			return f.failed("read", r.pos, err, local)
		}
		if err := r.t.Wait(f.life, f.life, time.Time{}); err != nil {
			return f.failed("read", r.pos, err, true)
		}
	}
}

// took notes that the reader has taken n bytes of the block. The caller holds
// File.mu.
func (r *readAhead) took(n int) {
	b := &r.block
	b.b, b.off = b.b[n:], b.off+int64(n)
	r.pos += int64(n)
	if !r.shown && len(b.b) <= b.size-b.size/aheadShown {
		r.shown = true
		r.ahead *= aheadGrowth
		r.f.c.mux.Lock()
		r.ask()
		r.f.c.mux.Unlock()
	}
}
