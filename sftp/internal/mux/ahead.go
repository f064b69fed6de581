package mux

import (
	"slices"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// A further lane asks for data along with its handshake: of what is moved then, it opens
// the file of which most is left, and reads from the handle that the server is known to
// give out first. To wait for each answer would take three round trips more. The data of
// such a READ is used if the handle turns out to be the one of the file, and if that is
// still the file that the other lanes read.

// ExpectFirst as [Config.Expect] stands for the size of [Config.First].
const ExpectFirst = -1

// A guess is a file that is open on a lane under a handle, if the guess is right.
type guess struct {
	file   *File
	handle string

	// All of mux.mu, as answers come:
	open  bool // the handle is that one
	look  bool // attrs, or why, say what it is of
	attrs wire.Attrs
	why   error
}

// learnHandle notes the handle that the server gives out first, if a lane's handle is one
// of those known to be. The caller holds mu.
func (m *Mux) learnHandle(h string) {
	if slices.Contains(guessedHandles[:], h) {
		m.guess = h
	}
}

// openAhead asks for a file, and for data of it, on a lane that has still to shake
// hands. appendAhead has the requests. The caller holds mu.
func (m *Mux) openAhead(l *Lane) {
	t := m.neediest(l.conn)
	if t == nil || l.err != nil {
		return
	}
	f := t.File
	k := f.openOn(l)
	if m.guess == "" || f.access != wire.OpenRead || k.state != callSent {
		return
	}
	g := &guess{file: f, handle: m.guess}
	l.guess = g
	h := Handle{l, g.handle}
	f.fstat(h, &g.attrs, func(err error) {
		if l.guess == g {
			g.look, g.why = true, err
			f.compareAhead(l)
		}
	})
	for now := time.Now(); t.nextOn(now, h); {
	}
}

// neediest returns the transfer that has most left of those which have use for another
// lane of a connection, or nil. The caller holds mu.
func (m *Mux) neediest(conn *connection) (best *Transfer) {
	for t := range m.transfers {
		f := t.File
		if t.gone || t.Over() || !f.widens() || f.closed || f.err != nil || len(f.handles) == 0 {
			continue
		}
		lanes, left := t.Plan.Lanes(), t.Plan.Left()
		if len(f.handles)+len(f.opening) >= lanes && f.onConn(conn) >= m.pool.even(lanes, left) {
			continue
		}
		if best == nil || left > best.Plan.Left() {
			best = t
		}
	}
	return best
}

// appendAhead appends what openAhead has asked for.
func (l *Lane) appendAhead(b []byte) []byte {
	l.mux.mu.Lock()
	defer l.mux.mu.Unlock()
	b = append(b, l.text...)
	l.text = l.text[:0]
	return b
}

// guesses reports whether it is not known yet whether the handle of a file on a lane was
// guessed right. The caller holds mu.
func (l *Lane) guesses(f *File) bool { return l.guess != nil && l.guess.file == f }

// openedAhead takes the answer to an OPEN ahead, and reports whether the guess holds so far. The
// caller holds mu.
func (f *File) openedAhead(h Handle, err error) bool {
	g := h.Lane.guess
	if err != nil || h.Handle != g.handle {
		if err == nil {
			f.mux.guess = ""
		}
		h.Lane.endGuess(false)
		return false
	}
	g.open = true
	f.compareAhead(h.Lane)
	return true
}

// compareAhead compares the file once both answers have come. The caller holds mu.
func (f *File) compareAhead(l *Lane) {
	if g := l.guess; g.open && g.look {
		f.described(Handle{l, g.handle}, g.attrs, g.why)
	}
}

// endGuess ends a guess: if it was wrong, others get what was asked for under it. The caller
// holds mu.
func (l *Lane) endGuess(right bool) {
	f := l.guess.file
	if l.guess = nil; right {
		return
	}
	for _, a := range l.mux.table.all {
		if a.lane == l && a.transfer != nil && a.transfer.File == f {
			a.void = true
			l.mux.link.Lost(a.inner)
		}
	}
}

// discard drops the answer to a READ that was sent on a guess which was wrong, or is not
// known to be right. The caller holds mu.
func (m *Mux) discard(now time.Time, a *request) {
	t := a.transfer
	if !a.void {
		m.link.Lost(a.inner)
	}
	m.table.remove(a)
	t.changed(now)
}
