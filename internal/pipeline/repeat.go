package pipeline

import (
	"math/bits"
	"time"
)

// A lane that is slow, or dead without knowing, must not hold up the end of a
// file, or the first byte missing in a sink that waits for it. When there is
// nothing else to ask, a lane with room has a range that another one is late
// with. The first answer counts, the other is a duplicate.
const (
	// lateTrips is how many mean round trips make a request late. Those of
	// lanes that are alike differ by less.
	lateTrips = 2

	// lateScan is how many late requests a lane passes over because they are
	// its own.
	lateScan = 16
)

// repeat returns a request for a range that is outstanding on another lane.
func (p *Plan) repeat(t time.Duration, lane int) (Request, bool) {
	k := p.link
	if !p.repeats || k.bytes.smooth == 0 {
		return Request{}, false
	}
	x := p.oldest
	for range lateScan {
		if x == none {
			break
		}
		r := k.table.at(x)
		if t-r.sentAt < p.late() {
			break // and so are all after it
		}
		if int(r.lane) == lane || r.held { // it has this lane, or its answer is here
			x = r.younger
			continue
		}
		s := &p.pieces.all[r.piece]
		n := s.end - s.off // all of it, even if chunks have become smaller
		if !p.room(t, lane, n) {
			break
		}
		p.unqueue(x)
		p.stats.Repeats++
		_, again := p.ask(t, lane, r.piece, s.off, n)
		return again, true
	}
	return Request{}, false
}

func (p *Plan) late() time.Duration { return lateTrips * p.link.bytes.smooth }

// Deadline returns when a range will be late that another lane could have;
// zero means that only an answer can change anything. Once it has passed, Next
// is worth one more call for each lane; if all say no, wait for an answer.
func (p *Plan) Deadline() time.Time {
	k := p.link
	if !p.repeats || p.oldest == none || k.bytes.smooth == 0 || p.failed() || bits.OnesCount64(k.open) < 2 || p.due() > 0 {
		return time.Time{}
	}
	return k.bytes.epoch.Add(k.table.at(p.oldest).sentAt + p.late())
}

// The list of requests by age holds those that may be repeated.

// queue puts a request at its young end.
func (p *Plan) queue(x int32) { p.insert(p.youngest, x, none) }

// requeue puts a request back when its repetition has ended: it is old by then.
func (p *Plan) requeue(x int32) { p.insert(none, x, p.oldest) }

func (p *Plan) insert(older, x, younger int32) {
	r := p.link.table.at(x)
	r.older, r.younger, r.waits = older, younger, true
	*p.youngerOf(older), *p.olderOf(younger) = x, x
}

func (p *Plan) unqueue(x int32) {
	r := p.link.table.at(x)
	if r.waits {
		*p.youngerOf(r.older), *p.olderOf(r.younger) = r.younger, r.older
		r.older, r.younger, r.waits = none, none, false
	}
}

// youngerOf and olderOf return the links around a request; of none, the ends.
func (p *Plan) youngerOf(x int32) *int32 {
	if x == none {
		return &p.oldest
	}
	return &p.link.table.at(x).younger
}

func (p *Plan) olderOf(x int32) *int32 {
	if x == none {
		return &p.youngest
	}
	return &p.link.table.at(x).older
}
