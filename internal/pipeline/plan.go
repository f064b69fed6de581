package pipeline

import (
	"math"
	"time"
)

// A Config says what a plan moves. Offset and Size alone are enough.
type Config struct {
	Link *Link // shared with other plans; nil means one of its own, with default Limits

	// The plan moves [Offset, Offset+Size); with Size -1 all from Offset until
	// the server, or the source, says that the file ends.
	Offset, Size int64

	// UntilEOF continues behind Size, one request at a time, until the end of
	// the file: Size is what a stat said, and the file may have grown since.
	UntilEOF bool

	Chunk int // most bytes a request; 0 means DefaultChunk, and a lane holds one at least

	// Span is the most bytes past the first missing one, for sinks that take
	// bytes in order and must hold the others in memory; 0 for no bound.
	Span int64

	// Repeat lets a second lane have a range that a first one is late with,
	// where nothing else is left to ask: reads can be repeated, writes should
	// not arrive again after a file was closed.
	Repeat bool

	// Held says that a request does not go out when [Plan.Next] returns it. It is held until
	// [Link.Sent]: the data of a write may have to be read first.
	Held bool
}

// A Plan moves one file. It never sees its bytes.
type Plan struct {
	link   *Link
	pieces pieces

	start    int64
	end      int64 // of the file; MaxInt64 while it is not known
	expected int64 // where it should be: behind it one request at a time
	limit    int64 // nothing is asked behind it, see Limit
	pushed   int64 // limit when Flush was called last
	chunk    int64
	span     int64
	repeats  bool
	held     bool

	out    int // requests outstanding, on all lanes
	asked  int // pieces asked for
	beyond int // of these, behind expected

	oldest, youngest int32 // requests by age, see request

	shorts   int   // short answers since the last full one
	longest  int64 // of these
	shrinkTo int64 // minChunk, but in tests

	remote, local failure
	stats         Stats
}

// New returns a plan of which nothing has been asked for.
func New(c Config) *Plan {
	p := &Plan{link: c.Link, start: max(c.Offset, 0), limit: math.MaxInt64, oldest: none, youngest: none, repeats: c.Repeat, held: c.Held, shrinkTo: minChunk}
	if p.link == nil {
		p.link = NewLink(Limits{})
	}
	p.end, p.expected = math.MaxInt64, math.MaxInt64
	if c.Size >= 0 && c.Size <= math.MaxInt64-p.start {
		p.expected = p.start + c.Size
		if !c.UntilEOF {
			p.end = p.expected
		}
	}
	p.chunk = min(int64(orDefault(c.Chunk, DefaultChunk)), p.link.laneBytes, p.link.bytes.ceiling)
	p.span = math.MaxInt64
	if c.Span > 0 {
		// With nothing outstanding the first hole is the first missing byte,
		// so that a request must fit.
		p.span, p.chunk = c.Span, min(p.chunk, c.Span)
	}
	p.pieces.reset(p.start, p.end)
	return p
}

// Next returns a request for a lane to send, and false if there is none now:
// then what is outstanding must be answered first, or the plan waits for
// [Plan.Limit], or nothing is left. Lanes are numbered from 0; one that was not
// used before counts as open from now on.
func (p *Plan) Next(now time.Time, lane int) (Request, bool) {
	k := p.link
	if lane < 0 || lane >= MaxLanes || p.failed() {
		return Request{}, false
	}
	t := k.bytes.clock(now)
	k.open |= 1 << lane
	n := p.due()
	if n == 0 {
		return p.repeat(t, lane)
	}
	if !p.room(t, lane, n) {
		return Request{}, false
	}
	off := p.pieces.all[p.pieces.holes[0]].off
	i := p.pieces.take(n)
	if i == none {
		p.remote.note(off, ErrFragments)
		return Request{}, false
	}
	p.asked++
	if off >= p.expected {
		p.beyond++
	}
	x, r := p.ask(t, lane, i, off, n)
	p.queue(x)
	return r, true
}

// due returns how many bytes from the first hole the next request is to have,
// or 0 if there should be none now.
func (p *Plan) due() int64 {
	if len(p.pieces.holes) == 0 {
		return 0
	}
	s := &p.pieces.all[p.pieces.holes[0]]
	n := min(s.end-s.off, p.chunk)
	if s.off < p.expected {
		n = min(n, p.expected-s.off)
	} else if p.beyond > 0 && p.expected < p.end {
		return 0
	}
	if s.off+n > p.limit {
		// Like Nagle's rule (RFC 896): a request shorter than a chunk waits
		// until there is more, or nothing outstanding.
		if s.off >= p.limit || p.asked > 0 && p.limit > p.pushed {
			return 0
		}
		n = p.limit - s.off
	}
	if s.off+n-p.Contiguous() > p.span {
		return 0
	}
	return n
}

// room reports whether a request of n bytes may go out on a lane now.
//
// While all that is outstanding is held, a plan that has nothing outstanding gets one request,
// however small the window is. Those that are held may wait for its answer, as when a file is
// copied to another of the same server.
func (p *Plan) room(t time.Duration, lane int, n int64) bool {
	k := p.link
	if p.out == 0 && k.heldBytes == k.bytes.out && !k.table.full() {
		return true
	}
	return k.room(t, lane, n)
}

// ask sends a request for n bytes at off, for a piece.
func (p *Plan) ask(t time.Duration, lane int, i int32, off, n int64) (index int32, r Request) {
	k := p.link
	index, id := k.table.add(request{
		flight: k.bytes.sent(t, n), plan: p, off: off, lane: int32(lane), piece: i, older: none, younger: none, held: p.held,
	})
	if p.held {
		k.heldBytes += n
	}
	s := &p.pieces.all[i]
	if s.asks[0] == none {
		s.asks[0] = index
	} else {
		s.asks[1] = index
	}
	k.lanes[lane] += n
	p.out++
	p.stats.Requests++
	return index, Request{ID: id, Offset: off, Len: int(n)}
}

// Reply reports that n bytes of a request have moved, from its Offset on: the
// driver has stored them, or the server has. Of a short answer the rest is asked
// for again. Where an answer has no bytes and no end of file either, the range
// is asked for again too, but only so often; then the plan fails.
//
// It reports false, and nothing has changed, if n is not between 0 and the
// request's Len or if no such request of this plan is outstanding: the server
// does not keep to the protocol, and its lane is not worth keeping.
func (p *Plan) Reply(now time.Time, id uint32, n int) bool {
	x := p.find(id)
	if x == none || n < 0 || int64(n) > p.link.table.at(x).units {
		return false
	}
	r := p.answered(now, x, int64(n))
	if r.piece == none {
		p.stats.Duplicate += int64(n)
		return true
	}
	p.adapt(int64(n), r.units)
	s := &p.pieces.all[r.piece]
	got := min(s.end, r.off+int64(n))
	fresh := max(got-s.off, 0)
	p.stats.Moved += fresh
	p.stats.Duplicate += int64(n) - fresh
	switch {
	case got == s.end:
		p.detach(r.piece)
		p.left(r.piece)
		p.pieces.finish(r.piece)
		return true
	case fresh > 0:
		if !p.pieces.cut(r.piece, got) {
			p.remote.note(s.off, ErrFragments)
		}
		p.pieces.all[r.piece].empties = 0
	case n == 0:
		if s.empties++; s.empties >= maxEmpty {
			p.remote.note(s.off, ErrNoProgress)
		}
	}
	p.giveUp(r.piece)
	return true
}

// adapt counts short answers, and shrinks further requests when there are only
// such.
func (p *Plan) adapt(n, asked int64) {
	switch n {
	case asked:
		if asked >= p.chunk {
			p.shorts, p.longest = 0, 0
		}
		return
	case 0:
		p.stats.Empty++
		return
	}
	p.stats.Short++
	p.longest = max(p.longest, n)
	if p.shorts++; p.shorts >= shortsInRow {
		p.chunk = min(p.chunk, max(p.longest, p.shrinkTo))
		p.shorts, p.longest = 0, 0
	}
}

// EOF reports that a request was answered by the end of the file, or that the
// source of a write ended and it was not sent. The end is then where the request
// begins, or before. It is false for an id that is unknown, like Reply. Requests
// behind the end are still to be answered, and it does not matter how.
func (p *Plan) EOF(id uint32) bool {
	x := p.find(id)
	if x == none {
		return false
	}
	r := p.ended(x)
	if r.piece == none {
		return true // its other answer brought data, or an earlier end
	}
	end := p.pieces.all[r.piece].off
	p.giveUp(r.piece)
	p.EndAt(end)
	return true
}

// EndAt says that the file ends at an offset: the source of a write has come
// to its end. The end of a file never moves back up, nor below Contiguous.
func (p *Plan) EndAt(end int64) {
	end = max(end, p.Contiguous())
	if end >= p.end {
		return
	}
	for i := p.pieces.last; i != none && p.pieces.all[i].off >= end; i = p.pieces.last {
		switch p.pieces.all[i].state {
		case hole:
			p.pieces.pop(i)
		case asked:
			p.detach(i)
			p.left(i)
		}
		p.pieces.drop(i)
	}
	if i := p.pieces.last; i != none {
		p.pieces.all[i].end = end
	}
	p.end, p.expected = end, min(p.expected, end)
}

// Limit lets nothing new be asked at or behind an offset until it is moved: a
// reader that has taken so much wants no more than so much ahead, a writer has
// given no more than this. A request that would be cut short by the limit waits
// while others are outstanding; Flush lets it go. A reader best moves its limit
// by whole chunks.
func (p *Plan) Limit(to int64) { p.limit = to }

// Flush asks for all up to the limit, in a short request if need be.
func (p *Plan) Flush() { p.pushed = p.limit }

// Contiguous returns the first byte that has not moved, where a sequential
// transfer is to be resumed. It never falls.
func (p *Plan) Contiguous() int64 {
	i := p.pieces.first
	switch {
	case i == none:
		return p.end
	case p.pieces.all[i].state == done:
		return p.pieces.all[i].end
	}
	return p.start
}

// End returns where the file ends, and false while that is not known.
func (p *Plan) End() (int64, bool) { return p.end, p.end < math.MaxInt64 }

// Done reports whether nothing is left to do: all bytes have moved, or the plan
// has failed and all that was outstanding has been answered.
func (p *Plan) Done() bool {
	return p.Contiguous() == p.end || p.failed() && p.out == 0
}

// AllAsked reports whether all bytes up to the end have moved, or are asked for.
func (p *Plan) AllAsked() bool { return len(p.pieces.holes) == 0 }

// Outstanding returns how many requests are to be answered, those included
// whose answers do not matter any more.
func (p *Plan) Outstanding() int { return p.out }

// Lanes returns how many lanes are worth having for what is left of this file.
func (p *Plan) Lanes() int {
	return p.link.lanesFor(max(p.expected-p.Contiguous(), 1))
}

// Left returns how many bytes are to be expected behind the first that is
// missing. Where no end is known that is as many as have moved: a transfer that has
// run for long is expected to continue, and one that has just begun may be over.
func (p *Plan) Left() int64 {
	if p.expected == math.MaxInt64 {
		return p.Contiguous() - p.start
	}
	return max(p.expected-p.Contiguous(), 0)
}

// Link returns the link of the plan.
func (p *Plan) Link() *Link { return p.link }

// Chunk returns the most bytes of further requests. It falls when a server
// answers every request short.
func (p *Plan) Chunk() int { return int(p.chunk) }

// Stats returns what p has counted so far.
func (p *Plan) Stats() Stats { return p.stats }
