package mux

import (
	"slices"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// A session that is opened for a running transfer sends READs along with its handshake, before it
// knows the handle of the file. It opens the file that has the most bytes left to move, and guesses
// that the server returns the same handle as for the first file of any session. This saves three
// round trips. The data is used if the guess was right, and if the file is still the one that the
// other sessions read.

// learnHandle stores h as the handle that the server returns first in a session, if h is one of
// guessedHandles.
func (m *Mux) learnHandle(h string) {
	if slices.Contains(guessedHandles[:], h) {
		m.firstHandle = h
	}
}

// greeting queues an OPEN and READs of a file in a new session. The handshake sends these requests
// along with its own.
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

// discard drops the answer to a READ whose guessed handle was wrong, or is not confirmed yet.
func (m *Mux) discard(now time.Time, a *request, t *transfer) {
	if !a.void {
		m.link.Lost(a.inner)
	}
	m.table.remove(a)
	t.changed(now)
}
