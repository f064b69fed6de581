package mux

import (
	"slices"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// A further session asks for data along with its handshake. It opens the file with the most
// left of those that are being moved, and reads from the handle that the server is known to
// give out first. To wait for each answer would take three round trips more. The data of such
// a READ is used if that is the handle of the file, and the file is still the one that the
// other sessions read.

// learnHandle notes which handle the server gives out first, if h is one that servers are known
// to give out first.
func (m *Mux) learnHandle(h string) {
	if slices.Contains(guessedHandles[:], h) {
		m.firstHandle = h
	}
}

// greeting opens a file, and asks for data of it, in a session that has still to shake hands.
// The handshake sends the requests.
func (m *Mux) greeting(s *Session) {
	t := m.transfers.neediest(s.conn)
	if t == nil || s.err != nil {
		return
	}
	f := t.file
	k := f.openIn(s)
	if m.firstHandle == "" || f.access != wire.OpenRead || k.state != callSent {
		return
	}
	g := &guess{session: s, handle: m.firstHandle}
	f.guesses = append(f.guesses, g)
	h := Handle{s, g.handle}
	f.fstat(h, &g.attrs, func(err error) {
		if slices.Contains(f.guesses, g) {
			g.answered, g.why = true, err
			f.compareGuess(g)
		}
	})
	now := time.Now()
	for a := t.nextIn(now, h); a != nil; a = t.nextIn(now, h) {
		g.ids = append(g.ids, a.id)
	}
}

// discard drops the answer to a READ that was sent on a guess that is wrong, or not yet known
// to be right.
func (m *Mux) discard(now time.Time, a *request, t *transfer) {
	if !a.void {
		m.link.Lost(a.inner)
	}
	m.table.remove(a)
	t.changed(now)
}
