package mux

import (
	"testing"
	"time"
)

// Sessions that end together count as one loss.
func TestLosses(t *testing.T) {
	var s losses
	now := time.Now()
	add := func(epoch, wantSpent int, wantPause time.Duration) {
		t.Helper()
		s.add(now, epoch)
		if pause := max(0, s.until.Sub(now)); s.spent != wantSpent || pause != wantPause {
			t.Errorf("%d losses count and the pause is %v, want %d and %v", s.spent, pause, wantSpent, wantPause)
		}
	}
	add(0, 1, 0)
	add(0, 1, 0)
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 50, 50} {
		add(s.epoch, 2+i, want*100*time.Millisecond)
	}
	s.moved = 3*calmBytes + calmBytes/2
	add(s.epoch, 7, maxPause)
	now = now.Add(3 * calmTime)
	add(s.epoch, 5, maxPause)
	s.moved = 1 << 60
	add(s.epoch, 1, maxPause)
	now = now.Add(time.Hour)
	add(s.epoch, 1, -0)
	for range 1000 {
		s.add(now, s.epoch)
	}
	add(s.epoch, 1002, maxPause)
	if !s.tooMany(now) || s.tooMany(now.Add(1000*calmTime)) {
		t.Error("too many are not too many, or for ever")
	}
}
