package pipeline

import (
	"errors"
	"math"
)

// A Config says which range a plan moves, and how. Only Offset and Size have to be set.
type Config struct {
	Link *Link // the path to use, which other plans may share; nil means a new link with default Limits

	// The plan moves [Offset, Offset+Size). A Size of -1 means everything from Offset on, until the
	// server or the source reports the end of the file.
	Offset, Size int64

	// UntilEOF continues after Size until the end of the file, with one request at a time. Size may
	// come from an earlier stat, and the file may have grown since.
	UntilEOF bool

	// Chunk is the maximum number of bytes in a request; 0 means DefaultChunk. New lowers it to
	// Limits.SessionBytes, Limits.MaxBytes and Span if these are smaller.
	Chunk int

	// Span is how many bytes after the first missing one may be requested. It is for sinks that need
	// the bytes in order, and have to keep later bytes in memory. 0 means no bound.
	Span int64

	// Repeat allows a session to repeat a request that is late on another session, when nothing else
	// is left to request. It is for reads. A write should not be repeated, because it might arrive
	// after the file was closed.
	Repeat bool

	// Held says that the driver does not send a request at once when [Plan.Next] returns it, for
	// example because it must read the data of a write first. The request counts as held until the
	// driver calls [Link.Sent].
	Held bool
}

// A Plan moves one file. It never handles the bytes themselves.
type Plan struct {
	link   *Link
	pieces pieces

	start int64
	end   int64 // end of the file; MaxInt64 while it is unknown
	// expected is the expected end of the file; MaxInt64 if unknown. Bytes after it are requested
	// one request at a time.
	expected int64
	limit    int64 // bytes at or after this offset are not requested: see Limit
	pushed   int64 // value of limit at the last call of Flush
	chunk    int64 // largest size of further requests: see Chunk
	span     int64 // see Config.Span; MaxInt64 if there is no bound
	repeats  bool
	held     bool

	out    int // number of outstanding requests, on all sessions
	asked  int // number of pieces with the state asked
	beyond int // number of pieces with the state asked that lie after `expected`

	ages ages // requests that may be repeated

	shorts   int   // number of short answers since the last full one
	longest  int64 // length of the longest short answer since the last full one
	shrinkTo int64 // smallest value of chunk after short answers: minChunk, except in tests

	remote, local failure
	stats         Stats
}

// New returns a plan that has made no requests yet.
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
	p.chunk = min(int64(orDefault(c.Chunk, DefaultChunk)), p.link.sessionBytes, p.link.bytes.ceiling)
	p.span = math.MaxInt64
	if c.Span > 0 {
		// When nothing is outstanding, the first hole begins at the first missing byte. So one
		// request must fit into the span.
		p.span, p.chunk = c.Span, min(p.chunk, c.Span)
	}
	p.ages = ages{table: &p.link.table, oldest: none, youngest: none}
	p.pieces.reset(p.start, p.end)
	return p
}

// Limit prevents new requests for bytes at or after the offset `to`, until another call moves that
// limit. For a reader, the limit is how far to read ahead. For a writer, it is the end of the data
// written so far. A request that the limit would shorten waits until the limit is moved, until no
// other request is outstanding, or until Flush is called. So a reader should move its limit by whole
// chunks.
func (p *Plan) Limit(to int64) { p.limit = to }

// Flush allows all bytes up to the limit to be requested, even by a short request.
func (p *Plan) Flush() { p.pushed = p.limit }

// Contiguous returns the offset of the first byte that has not moved, where a sequential transfer
// can be resumed. It never decreases.
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

// End returns the end of the file. It returns false while the end is unknown.
func (p *Plan) End() (int64, bool) { return p.end, p.end < math.MaxInt64 }

// Done reports whether nothing is left to do: all bytes have moved, or the plan has failed and no
// request is outstanding.
func (p *Plan) Done() bool {
	return p.Contiguous() == p.end || p.failed() && p.out == 0
}

// AllAsked reports whether all bytes up to the end have moved or are requested.
func (p *Plan) AllAsked() bool { return len(p.pieces.holes) == 0 }

// Outstanding returns the number of requests that have no answer yet, including requests whose
// answers are not needed any more.
func (p *Plan) Outstanding() int { return p.out }

// Sessions returns how many sessions are useful for the rest of this file.
func (p *Plan) Sessions() int {
	return p.link.sessionsFor(max(p.expected-p.Contiguous(), 1))
}

// Left returns how many bytes are expected from the first missing byte on. If the end is unknown, it
// returns the number of bytes before the first missing one: a transfer that has lasted long will
// probably continue, and one that has just begun may soon be over.
func (p *Plan) Left() int64 {
	if p.expected == math.MaxInt64 {
		return p.Contiguous() - p.start
	}
	return max(p.expected-p.Contiguous(), 0)
}

// Link returns the link of the plan.
func (p *Plan) Link() *Link { return p.link }

// Chunk returns the largest size of further requests in bytes. It decreases if a server keeps
// giving short answers.
func (p *Plan) Chunk() int { return int(p.chunk) }

// Stats returns the counters of p.
func (p *Plan) Stats() Stats { return p.stats }

// Err returns the errors that made the plan fail: remote is an error of the server, and local is an
// error of this side. Each is the one with the lowest offset, or nil if no error was reported. They
// are final once Done returns true.
func (p *Plan) Err() (remote, local error) { return p.remote.at(p.end), p.local.at(p.end) }

func (p *Plan) failed() bool { return p.remote.at(p.end) != nil || p.local.at(p.end) != nil }

// find returns the index of the request with an id. It returns none if this plan has no such
// request.
func (p *Plan) find(id uint32) int32 {
	x := p.link.table.find(id)
	if x != none && p.link.table.at(x).plan != p {
		return none
	}
	return x
}

// ended is like answered, but does not use the request to measure the path, because the request may
// not even have been sent.
func (p *Plan) ended(x int32) request {
	r := p.forget(x)
	p.link.bytes.lost(r.flight)
	return r
}

// lost handles a request whose session is lost.
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

// detach separates the outstanding requests from a piece, because their answers are not needed any
// more.
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

// giveUp is called when a request for a piece is no longer outstanding but the piece is not done.
// The piece becomes a hole again, unless another request for it is outstanding.
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

// left updates the counts for a piece that is leaving the state asked.
func (p *Plan) left(i int32) {
	p.asked--
	if p.pieces.all[i].off >= p.expected {
		p.beyond--
	}
}

// errUnnamed replaces a nil error that the driver passed.
var errUnnamed = errors.New("failed for no stated reason")

// A failure holds the error with the lowest offset of all errors that were passed to `note`.
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

// at returns the error, or nil if the error's offset is at or after `end`, the end of the file.
func (f *failure) at(end int64) error {
	if f.off >= end {
		return nil
	}
	return f.err
}
