package pipeline

import (
	"math/bits"
	"time"
)

// Next returns the next request to send on a session. It returns false if no request may be sent on
// it now: outstanding requests must be answered first, the plan waits until [Plan.Limit] is moved,
// nothing is left to request, or the plan has failed. Sessions are numbered from 0. From the first
// call for it, a session counts as open.
func (p *Plan) Next(now time.Time, session int) (Request, bool) {
	k := p.link
	if session < 0 || session >= MaxSessions || p.failed() {
		return Request{}, false
	}
	t := k.bytes.clock(now)
	k.open |= 1 << session
	n := p.due()
	if n == 0 {
		return p.repeat(t, session)
	}
	if !p.room(t, session, n) {
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
	x, r := p.ask(t, session, i, off, n)
	p.ages.add(x)
	return r, true
}

// due returns how many bytes of the first hole the next request should cover, or 0 if no request
// should be sent now.
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
		// As with Nagle's rule (RFC 896), a request shorter than a chunk waits until there are more
		// bytes, or until nothing is outstanding.
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

// room reports whether a request of n bytes may go out on a session now.
//
// A plan without outstanding requests may send one, however small the window is, if all outstanding
// requests of the other plans are held. Otherwise the plans could wait for each other forever: when
// a file is copied to another file of the same server, the held writes wait for the data of a read.
func (p *Plan) room(t time.Duration, session int, n int64) bool {
	k := p.link
	if p.out == 0 && k.heldBytes == k.bytes.out && !k.table.full() {
		return true
	}
	return k.room(t, session, n)
}

// ask makes a request for the n bytes of a piece at off.
func (p *Plan) ask(t time.Duration, session int, i int32, off, n int64) (index int32, r Request) {
	k := p.link
	index, id := k.table.add(request{
		flight: k.bytes.sent(t, n), plan: p, off: off, session: int32(session), piece: i, older: none, younger: none, held: p.held,
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
	k.sessions[session] += n
	p.out++
	p.stats.Requests++
	return index, Request{ID: id, Offset: off, Len: int(n)}
}

// A session that is slow, or that has died without an error, must not delay the completion of a
// file, or the next byte that a sink waits for. When nothing else is left to request, a session with
// room repeats a request that is late on another session. The first answer counts, and the other one
// is a duplicate.
const (
	// lateTrips is the age, in mean round trips, at which a request is late. The round trips
	// of similar sessions differ by less.
	lateTrips = 2

	// lateScan is how many late requests the method repeat examines. It skips requests that are
	// outstanding on the same session, and requests that are held.
	lateScan = 16
)

// repeat returns a request for a range that is outstanding on another session.
func (p *Plan) repeat(t time.Duration, session int) (Request, bool) {
	k := p.link
	if !p.repeats || k.bytes.smooth == 0 {
		return Request{}, false
	}
	x := p.ages.oldest
	for range lateScan {
		if x == none {
			break
		}
		r := k.table.at(x)
		if t-r.sentAt < p.late() {
			break // all later requests in the list are younger
		}
		if int(r.session) == session || r.held { // the request is on this session, or its answer has arrived
			x = r.younger
			continue
		}
		s := &p.pieces.all[r.piece]
		n := s.end - s.off // the whole range, even if chunks have become smaller
		if !p.room(t, session, n) {
			break
		}
		p.ages.remove(x)
		p.stats.Repeats++
		_, again := p.ask(t, session, r.piece, s.off, n)
		return again, true
	}
	return Request{}, false
}

func (p *Plan) late() time.Duration { return lateTrips * p.link.bytes.smooth }

// Deadline returns the time at which the oldest request becomes late, so that another session may
// repeat it. At that time, call Next once more for each session. If all calls return false, wait for
// an answer. The zero time means that Next can return more requests only after an answer.
func (p *Plan) Deadline() time.Time {
	k := p.link
	if !p.repeats || p.ages.oldest == none || k.bytes.smooth == 0 || p.failed() || bits.OnesCount64(k.open) < 2 || p.due() > 0 {
		return time.Time{}
	}
	return k.bytes.epoch.Add(k.table.at(p.ages.oldest).sentAt + p.late())
}
