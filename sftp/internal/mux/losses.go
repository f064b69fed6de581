package mux

import (
	"time"
)

// A server may end sessions as often as it wants, and send a little each time:
// what moves between two losses must not be enough to log in again and again
// without a pause.
const (
	// firstPause is how long the client waits after the second loss in short
	// order before it opens another session; the first is made good at once. It
	// doubles with each loss, up to maxPause.
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second

	// calmTime is how long it takes for one loss to be forgotten.
	calmTime = 30 * time.Second

	// maxLosses is how many losses are made good in short order. calmBytes is
	// how much has to move for one of them not to count; for the pauses it
	// counts all the same.
	maxLosses = 10
	calmBytes = 1 << 20
)

// losses counts sessions that ended unexpectedly. Those that end together count as
// one.
type losses struct {
	era   int       // how many there were; what was opened before the last counts with that
	level int       // those not forgotten
	spent int       // those that nothing made up for
	moved int64     // bytes of files since the last
	last  time.Time // when that was
	until time.Time // no session is opened before
}

// forgotten returns how many losses time has made up for.
func (s *losses) forgotten(now time.Time) int { return int(now.Sub(s.last) / calmTime) }

// add counts the loss of a session that was opened in an era.
func (s *losses) add(now time.Time, era int) {
	if era != s.era {
		return
	}
	calm := s.forgotten(now)
	s.era++
	s.level = max(0, s.level-calm) + 1
	s.spent = max(0, s.spent-calm-int(s.moved/calmBytes)) + 1
	s.moved, s.last = 0, now
	if s.level > 1 {
		s.until = now.Add(min(firstPause<<min(s.level-2, 16), maxPause))
	}
}

// tooMany reports whether there is no sense in opening another session.
func (s *losses) tooMany(now time.Time) bool { return s.spent-s.forgotten(now) > maxLosses }
