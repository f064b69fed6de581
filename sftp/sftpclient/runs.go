package sftpclient

import (
	"io"
	"math"
	"time"

	"github.com/haul-project/haul/sftp/internal/mux"
)

// A run is a range of a file that is written behind, and grows at its end.
type run struct {
	b        *writeBehind
	t        *mux.Transfer
	start    int64
	end      int64      // mux.mu
	segments []*segment // mux.mu: of what is not confirmed, in order
	whole    bool       // mux.mu: it has its end, and waits for what is to be sent with it
}

// A segment is some of the bytes of a run. It is kept until the server has
// confirmed it, as its lane may be lost.
type segment struct {
	run     *run
	off     int64
	n       int // bytes
	room    int // for so many
	buffer  *mux.Buffer
	asked   bool // it has been sent: nothing is added to it
	writing int  // packets in lanes that are in buffer
	done    bool // only those packets need it
}

func (s *segment) end() int64 { return s.off + int64(s.n) }

// Written is called when a packet in the buffer has been sent. The caller holds
// mux.mu.
func (s *segment) Written() {
	s.writing--
	s.release()
}

// release gives the buffer back if it is not needed any more. The caller holds
// mux.mu.
func (s *segment) release() {
	if !s.done || s.writing > 0 || s.buffer == nil {
		return
	}
	b := s.run.b
	b.hold(-1, -int64(len(s.buffer.Bytes)))
	s.buffer.Free()
	*s = segment{}
	m := &b.c.memory
	m.segments = append(m.segments, s)
}

func (r *run) Ready() bool { return true }

func (r *run) Granted(g mux.Grant) {
	i := 0
	for r.segments[i].end() <= g.Offset {
		i++
	}
	if s := r.segments[i]; s.off == g.Offset && s.n == g.Len && s.writing == 0 {
		s.asked = true
		s.writing++
		g.Send(s.buffer.Bytes, s.n, s)
		return
	}
	// Several short ones, or what is left of those that a lane took with it.
	b := mux.NewBuffer(mux.WriteHead + g.Len)
	n := 0
	for ; n < g.Len; i++ {
		s := r.segments[i]
		s.asked = true
		from := int(g.Offset + int64(n) - s.off)
		n += copy(b.Bytes[mux.WriteHead+n:mux.WriteHead+g.Len], s.buffer.Bytes[mux.WriteHead+from:mux.WriteHead+s.n])
	}
	g.Send(b.Bytes, n, b)
}

func (r *run) Changed() {
	sure := r.t.Plan.Contiguous()
	n := 0
	for n < len(r.segments) && r.segments[n].asked && r.segments[n].end() <= sure {
		r.segments[n].done = true
		r.segments[n].release()
		n++
	}
	if n > 0 {
		r.segments = append(r.segments[:0], r.segments[n:]...)
	}
	r.t.Notify()
}

// drop forgets what is not confirmed. The caller holds mux.mu.
func (r *run) drop() {
	for _, s := range r.segments {
		s.done = true
		s.release()
	}
	r.segments = nil
}

// idle reports whether a run can be forgotten as it is. The caller holds
// mux.mu.
func (r *run) idle() bool {
	return r.t.Err == nil && len(r.segments) == 0 && r.t.Plan.Outstanding() == 0
}

// add copies some of p to the end of a run. The caller holds File.mu.
func (r *run) add(p []byte) (n int, err error) {
	m := r.b.c.mux
	m.Lock()
	defer m.Unlock()
	s, err := r.tail(len(p))
	if err != nil {
		return 0, err
	}
	n = copy(s.buffer.Bytes[mux.WriteHead+s.n:mux.WriteHead+s.room], p[:min(len(p), maxCopy)])
	r.grow(s, n, n == len(p))
	return n, nil
}

// grow takes n bytes more, at the end of the last segment. If it should not wait
// for more, it is asked for; then it depends on what is in flight whether it
// goes out at once. The caller holds mux.mu.
func (r *run) grow(s *segment, n int, ready bool) {
	s.n += n
	r.end += int64(n)
	r.t.Plan.Limit(r.end)
	if !r.whole && (s.n == s.room || ready && r.t.Plan.Outstanding() == 0) {
		r.t.Advance(time.Now())
	}
}

// tail returns the last segment of a run if there is room in it, or another one
// for n bytes more, as soon as there is memory. The caller holds File.mu and
// mux.mu.
func (r *run) tail(n int) (*segment, error) {
	b, c := r.b, r.b.c
	for {
		if r.failed() {
			return nil, r.failure()
		}
		if i := len(r.segments); i > 0 && !r.segments[i-1].asked && r.segments[i-1].n < r.segments[i-1].room {
			return r.segments[i-1], nil
		}
		// A short write takes little memory, and a long run large requests.
		want := min(c.server.WriteChunk, max(n, int(min(r.end-r.start, math.MaxInt32))))
		buf := mux.NewBuffer(mux.WriteHead + want)
		if size := int64(len(buf.Bytes)); b.mayHold(size) {
			b.hold(1, size)
			s := c.memory.newSegment()
			*s = segment{run: r, off: r.end, room: min(c.server.WriteChunk, len(buf.Bytes)-mux.WriteHead), buffer: buf}
			r.segments = append(r.segments, s)
			return s, nil
		}
		buf.Free()
		for _, other := range b.runs { // nothing may wait for what we wait with
			other.t.Plan.Flush()
			other.t.Ask(time.Now())
		}
		c.mux.GrantRoom(time.Now())
		if err := r.t.Wait(b.life, b.life, time.Time{}); err != nil {
			return nil, b.failed("write", r.t.Plan.Contiguous(), err, true)
		}
	}
}

// mayHold reports whether a file may have a segment of so many bytes more: what
// the path holds is enough, and what all together may have is the most. The
// caller holds mux.mu.
func (b *writeBehind) mayHold(size int64) bool {
	c := b.c
	return b.segments < sureSegments ||
		c.memory.held+size <= int64(c.config.Memory) && b.held+size <= int64(c.mux.Window()+2*c.server.WriteChunk)
}

func (b *writeBehind) hold(segments int, bytes int64) {
	b.segments += segments
	b.held += bytes
	b.c.memory.held += bytes
}

// failed reports whether a run cannot continue. The caller holds mux.mu.
func (r *run) failed() bool {
	remote, local := r.t.Plan.Err()
	return remote != nil || local != nil || r.t.Err != nil
}

// failure returns why. The caller holds mux.mu.
func (r *run) failure() error {
	local, err := r.t.Failure()
	return r.b.failed("write", r.t.Plan.Contiguous(), err, local)
}

// readFrom reads once from src, to the end of a run, which is at pos. n is how many bytes
// may come. The caller holds File.mu.
func (r *run) readFrom(src io.Reader, pos int64, n int) (int, error) {
	m := r.b.c.mux
	m.Lock()
	defer m.Unlock()
	s, err := r.tail(n)
	if err != nil {
		return 0, r.b.noteFailure(err)
	}
	to := s.buffer.Bytes[mux.WriteHead+s.n : mux.WriteHead+s.room]
	s.writing++ // it stays where it is
	m.Unlock()
	n, err = src.Read(to)
	to = to[:min(max(n, 0), len(to))]
	if err != nil && err != io.EOF {
		err = &TransferError{Op: "write", Name: r.b.name, Offset: pos + int64(len(to)), Local: true, Err: err}
	}
	m.Lock()
	if s.asked {
		// Its earlier content was sent meanwhile.
		m.Unlock()
		for n = 0; n < len(to); {
			some, e := r.add(to[n:])
			if n += some; e != nil {
				err = r.b.noteFailure(e)
				break
			}
		}
		m.Lock()
		s.writing--
		s.release()
		return n, err
	}
	s.writing--
	r.grow(s, len(to), true)
	return len(to), err
}

// A fileMemory counts what the buffers of all files of a client hold, under mux.mu.
type fileMemory struct {
	held     int64      // bytes
	segments []*segment // not used
}

// newSegment returns a segment, of those not used any more if there is one. The
// caller holds mux.mu.
func (m *fileMemory) newSegment() *segment {
	n := len(m.segments)
	if n == 0 {
		return &segment{}
	}
	s := m.segments[n-1]
	m.segments = m.segments[:n-1]
	return s
}
