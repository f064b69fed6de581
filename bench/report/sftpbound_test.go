package report

import (
	"math"
	"testing"
	"time"
)

// The bound is the one in which the goals are stated.
func TestSFTPBound(t *testing.T) {
	const miB = 1 << 20
	for _, test := range []struct {
		size int64
		trip time.Duration
		want float64 // seconds
	}{
		{256 * miB, 9 * time.Millisecond, 0.64},
		{256 * miB, 20 * time.Millisecond, 0.85},
		{256 * miB, 100 * time.Millisecond, 2.76},
		{1024 * miB, 20 * time.Millisecond, 2.17},
		{1024 * miB, 100 * time.Millisecond, 5.48},
	} {
		if got := newSFTPModel(test.trip).bound(test.size).Seconds(); math.Abs(got-test.want) > 0.02*test.want {
			t.Errorf("%d bytes at %v: %.3f s, want %.2f within 2 %%", test.size, test.trip, got, test.want)
		}
	}
}

// Computed by hand: three connections with windows of 1, 2, 4 and 4 kB move 3, 6, 12 and 12 kB in
// the round trips after a login of two; then the processors are the limit.
func TestSFTPBoundByHand(t *testing.T) {
	m := sftpModel{Trip: 100 * time.Millisecond, LoginTrips: 2, Start: 10 * time.Millisecond, Conns: 3, Window: 1000, MaxWindow: 4000, Rate: 1e9}
	for _, test := range []struct {
		size int64
		rate float64
		want time.Duration
	}{
		{-1, 1e9, 210 * time.Millisecond},
		{0, 1e9, 210 * time.Millisecond},
		{1500, 1e9, 260 * time.Millisecond},
		{3000, 1e9, 310 * time.Millisecond},
		{9000, 1e9, 410 * time.Millisecond},
		{21_000, 1e9, 510 * time.Millisecond},
		{27_000, 1e9, 560 * time.Millisecond},
		{27_000, 60_000, 710 * time.Millisecond}, // 3 kB, and then 6 in each round trip
	} {
		if m.Rate = test.rate; m.bound(test.size).Round(time.Microsecond) != test.want {
			t.Errorf("%d bytes at a rate of %.0f take %v, want %v", test.size, test.rate, m.bound(test.size), test.want)
		}
	}
	near := newSFTPModel(0)
	if got, want := near.bound(610e6), near.Start+time.Second; got.Round(time.Microsecond) != want {
		t.Errorf("without a round trip %v, want %v", got, want)
	}
}
