package mux

import (
	"time"
)

// A server may end sessions again and again, after moving a little data in each. The client must
// not respond by logging in again and again without a pause.
const (
	// firstPause is how long the client waits before it opens a session after the second loss in a
	// row. After the first loss it does not wait. Each further loss doubles the pause, up to
	// maxPause.
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second

	// calmTime is the time without a loss after which one earlier loss no longer counts.
	calmTime = 30 * time.Second

	// maxLosses is how many losses in a row the client tolerates. For each calmBytes bytes that
	// move, one loss no longer counts, but the pauses stay as long.
	maxLosses = 10
	calmBytes = 1 << 20
)

// losses counts the sessions that ended unexpectedly. Sessions that end together must count as one
// loss. So each loss begins an epoch, and the loss of a session that was opened in an earlier epoch
// is not counted.
type losses struct {
	epoch int       // number of losses so far
	level int       // number of recent losses, which sets the length of the pause
	spent int       // number of losses that still count: see calmTime and maxLosses
	moved int64     // bytes of file data since the last loss
	last  time.Time // time of the last loss
	until time.Time // no session is opened before this time
}

// forgotten returns how many losses no longer count because of the time since the last one.
func (s *losses) forgotten(now time.Time) int { return int(now.Sub(s.last) / calmTime) }

// add counts the loss of a session that was opened in the epoch `epoch`, unless a loss has been
// counted since.
func (s *losses) add(now time.Time, epoch int) {
	if epoch != s.epoch {
		return
	}
	calm := s.forgotten(now)
	s.epoch++
	s.level = max(0, s.level-calm) + 1
	s.spent = max(0, s.spent-calm-int(s.moved/calmBytes)) + 1
	s.moved, s.last = 0, now
	if s.level > 1 {
		s.until = now.Add(min(firstPause<<min(s.level-2, 16), maxPause))
	}
}

// tooMany reports whether so many losses have occurred that no more sessions should be opened.
func (s *losses) tooMany(now time.Time) bool { return s.spent-s.forgotten(now) > maxLosses }
