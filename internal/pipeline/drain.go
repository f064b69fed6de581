package pipeline

import (
	"errors"
	"time"
)

// How requests end otherwise than by data, and what then becomes of the rest.

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

// answered takes a request that the server has answered out of all lists and
// returns it.
func (p *Plan) answered(now time.Time, x int32, moved int64) request {
	r := p.forget(x)
	p.link.bytes.answered(p.link.bytes.clock(now), r.flight, moved)
	return r
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
	p.unqueue(x)
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
			p.unqueue(x)
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
			p.requeue(x)
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
