package pipeline

import "time"

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

// Failed reports that the server answered a request with an error. No more is
// asked, what is outstanding is to be drained, and of all errors the one with
// the lowest offset is kept. It is no failure if the file turns out to end
// before it, or if another lane has been asked for the same range.
//
// It is false for an id that is unknown, like Reply.
func (p *Plan) Failed(now time.Time, id uint32, err error) bool {
	x := p.find(id)
	if x == none {
		return false
	}
	p.fail(p.answered(now, x, 0), &p.remote, err)
	return true
}

// LocalFailed is Failed for errors on this side: the store refused what came,
// or the source of a request had none, which was then not sent.
func (p *Plan) LocalFailed(id uint32, err error) bool {
	x := p.find(id)
	if x == none {
		return false
	}
	p.fail(p.ended(x), &p.local, err)
	return true
}

func (p *Plan) fail(r request, f *failure, err error) {
	if r.piece == none {
		return
	}
	if s := &p.pieces.all[r.piece]; s.asks[0] == none {
		f.note(s.off, err)
	}
	p.giveUp(r.piece)
}

// Stop ends the plan for a reason of ours: no more is asked, and err is the
// local error.
func (p *Plan) Stop(err error) { p.local.note(-1, err) }

// answered takes a request that the server has answered out of all lists and
// returns it.
func (p *Plan) answered(now time.Time, x int32, moved int64) request {
	r := p.forget(x)
	p.link.bytes.answered(p.link.bytes.clock(now), r.flight, moved)
	return r
}
