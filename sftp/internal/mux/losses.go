package mux

import (
	"time"
)

// A server may end sessions again and again, and move a little data each time. That must not make
// the client log in again and again without a pause.
const (
	// firstPause is how long the client waits before it opens another session after the second loss
	// in a row. After the first loss it does not wait. The pause doubles with each loss, up to
	// maxPause.
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second

	// calmTime is the time after which one loss no longer counts.
	calmTime = 30 * time.Second

	// maxLosses is how many losses in a row the client tolerates. Each calmBytes that move cancel
	// one loss, but they do not shorten the pauses.
	maxLosses = 10
	calmBytes = 1 << 20
)

// losses counts the sessions that ended unexpectedly. Sessions that end together count as
// one loss: an epoch begins with each loss, and sessions of an earlier epoch do not count.
type losses struct {
	epoch int       // the number of losses so far
	level int       // recent losses; it sets the length of the pause
	spent int       // losses that neither time nor moved bytes have compensated
	moved int64     // bytes of files since the last loss
	last  time.Time // when the last loss occurred
	until time.Time // no session is opened before this time
}

// forgotten returns how many losses the time since the last one has compensated.
func (s *losses) forgotten(now time.Time) int { return int(now.Sub(s.last) / calmTime) }

// add counts the loss of a session that was opened in the given epoch.
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

// tooMany reports whether to stop opening sessions.
func (s *losses) tooMany(now time.Time) bool { return s.spent-s.forgotten(now) > maxLosses }
