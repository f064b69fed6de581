package pipeline

import (
	"errors"
	"math"
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

	ages ages // of requests that may be repeated

	shorts   int   // short answers since the last full one
	longest  int64 // of these
	shrinkTo int64 // minChunk, but in tests

	remote, local failure
	stats         Stats
}

// New returns a plan of which nothing has been asked for.
func New(c Config) *Plan {
	p := &Plan{link: c.Link, start: max(c.Offset, 0), limit: math.MaxInt64, repeats: c.Repeat, held: c.Held, shrinkTo: minChunk}
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
	p.ages = ages{table: &p.link.table, oldest: none, youngest: none}
	p.pieces.reset(p.start, p.end)
	return p
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

// Err returns the errors, if any, for which the plan has failed: the one of
// the server and the one of this side, each that of the lowest offset. They are
// final once Done.
func (p *Plan) Err() (remote, local error) { return p.remote.at(p.end), p.local.at(p.end) }

func (p *Plan) failed() bool { return p.remote.at(p.end) != nil || p.local.at(p.end) != nil }

// find returns the request of an id if it is one of this plan, or none.
func (p *Plan) find(id uint32) int32 {
	x := p.link.table.find(id)
	if x != none && p.link.table.at(x).plan != p {
		return none
	}
	return x
}

// ended is answered for a request whose end says nothing of the path, and may
// not even have been sent.
func (p *Plan) ended(x int32) request {
	r := p.forget(x)
	p.link.bytes.lost(r.flight)
	return r
}

// lost gives up a request whose lane is gone.
func (p *Plan) lost(x int32) {
	r := p.ended(x)
	p.stats.Lost++
	if r.piece != none {
		p.giveUp(r.piece)
	}
}

func (p *Plan) forget(x int32) request {
	p.ages.remove(x)
	r := p.link.remove(x)
	p.out--
	if r.piece != none {
		s := &p.pieces.all[r.piece]
		if s.asks[0] == x {
			s.asks[0] = s.asks[1]
		}
		s.asks[1] = none
	}
	return r
}

// detach takes what is outstanding for a piece off it: the answers do not
// matter any more.
func (p *Plan) detach(i int32) {
	s := &p.pieces.all[i]
	for n, x := range s.asks {
		if x != none {
			p.ages.remove(x)
			p.link.table.at(x).piece = none
			s.asks[n] = none
		}
	}
}

// giveUp is called when a request for a piece has ended and the piece is not
// done. It is a hole again unless another request for it is outstanding.
func (p *Plan) giveUp(i int32) {
	if x := p.pieces.all[i].asks[0]; x != none {
		if !p.link.table.at(x).waits {
			p.ages.addBack(x)
		}
		return
	}
	p.left(i)
	p.pieces.giveBack(i)
}

// left counts a piece that is not asked for any more.
func (p *Plan) left(i int32) {
	p.asked--
	if p.pieces.all[i].off >= p.expected {
		p.beyond--
	}
}

// errUnnamed stands for an error that the driver did not name.
var errUnnamed = errors.New("failed for no stated reason")

// A failure is the error of the lowest offset.
type failure struct {
	err error
	off int64
}

func (f *failure) note(off int64, err error) {
	if err == nil {
		err = errUnnamed
	}
	if f.err == nil || off < f.off {
		f.err, f.off = err, off
	}
}

// at returns the error if it lies in a file that ends at end.
func (f *failure) at(end int64) error {
	if f.off >= end {
		return nil
	}
	return f.err
}
