package pipeline

import "time"

// Reply reports that n bytes of a request have moved, from its Offset on: in a read the driver has
// stored them, in a write the server has. If the answer is short, the rest is requested again. If
// n is 0, the range is requested again too, but only a limited number of times; then the plan
// fails. If the answer is the end of the file, call [Plan.EOF] instead.
//
// Reply returns false and changes nothing if n is not between 0 and the request's Len, or if this
// plan has no outstanding request with that id. The server has then violated the protocol, and the
// driver should close the session.
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

// adapt counts short answers, and makes further requests smaller if several answers in a row are
// short.
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

// EOF reports that the server answered a request with the end of the file, or that a request was
// not sent because the source of a write has ended. The file then ends where the request begins, or
// earlier. EOF returns false for an unknown id, like Reply. Requests after the end of the file stay
// outstanding until they are answered, but the content of their answers does not matter.
func (p *Plan) EOF(id uint32) bool {
	x := p.find(id)
	if x == none {
		return false
	}
	r := p.ended(x)
	if r.piece == none {
		return true // another request has moved the range, or the range lies after an end that is already known
	}
	end := p.pieces.all[r.piece].off
	p.giveUp(r.piece)
	p.EndAt(end)
	return true
}

// EndAt reports that the file ends at the offset `end`, because the source of a write has ended
// there. A later call can only lower the end of the file, and never below Contiguous.
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

// Failed reports that the server answered a request with an error. Nothing more is requested, and
// the driver has to wait for the outstanding answers. Of all errors, the plan keeps the one with
// the lowest offset. It ignores an error if another session has a request for the same range, or if
// the file turns out to end at or before the error's offset.
//
// Failed returns false for an unknown id, like Reply.
func (p *Plan) Failed(now time.Time, id uint32, err error) bool {
	x := p.find(id)
	if x == none {
		return false
	}
	p.fail(p.answered(now, x, 0), &p.remote, err)
	return true
}

// LocalFailed is like Failed for an error on this side: the store refused the bytes, or the source
// had no bytes for a request, which was then not sent.
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

// Stop makes the plan fail for a reason on this side: nothing more is requested, and err becomes
// the local error.
func (p *Plan) Stop(err error) { p.local.note(-1, err) }

// answered handles a request that the server has answered: it removes the request from all lists,
// and returns it.
func (p *Plan) answered(now time.Time, x int32, moved int64) request {
	r := p.forget(x)
	p.link.bytes.answered(p.link.bytes.clock(now), r.flight, moved)
	return r
}
