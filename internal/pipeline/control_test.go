package pipeline

import (
	"math"
	"testing"
	"time"
)

// A pipe simulates a path with a round trip and a rate. It answers the requests of a control, each of
// 100 units, in order.
type pipe struct {
	c       control
	now     time.Duration
	rtt     time.Duration
	rate    int64 // units per second
	free    time.Duration
	flights []pipeFlight
}

type pipeFlight struct {
	f  flight
	at time.Duration // when it is answered
}

// fill sends requests until the window is full, but at most `most` requests.
func (p *pipe) fill(most int) {
	for range most {
		if !p.c.room(100) {
			p.c.refused(p.now)
			return
		}
		p.free = max(p.free, p.now+p.rtt) + time.Duration(100*int64(time.Second)/p.rate)
		p.flights = append(p.flights, pipeFlight{p.c.sent(p.now, 100), p.free})
	}
}

// answer answers the oldest request.
func (p *pipe) answer() {
	f := p.flights[0]
	p.flights = p.flights[1:]
	p.now = max(p.now, f.at)
	p.c.now = p.now
	p.c.answered(p.now, f.f, 100)
}

func newPipe(rtt time.Duration, rate int64) *pipe {
	return &pipe{c: newControl(400, 1_000_000), rtt: rtt, rate: rate}
}

// run keeps the window full for a while.
func (p *pipe) run(d time.Duration) {
	for end := p.now + d; p.now < end; p.answer() {
		p.fill(math.MaxInt)
	}
}

// near checks a value within a percentage.
func near(t *testing.T, what string, got, want int64, percent int64) {
	t.Helper()
	if got < want-want*percent/100 || got > want+want*percent/100 {
		t.Errorf("%s is %d, want %d within %d %%", what, got, want, percent)
	}
}

const ms = time.Millisecond

// The window doubles in each round trip until the path is full, and then stays at two
// bandwidth-delay products.
func TestRamp(t *testing.T) {
	p := newPipe(100*ms, 100_000)
	for range 5 {
		p.fill(math.MaxInt)
		sent := p.c.out
		for len(p.flights) > 0 {
			p.answer()
		}
		// The expected window is smaller, because the units themselves took some time.
		near(t, "the window", p.c.window(), 2*sent*100_000*101/1000/(100_000*100/1000+sent), 1)
	}
	if p.c.least != 101*ms {
		t.Errorf("round trip %v", p.c.least)
	}
	p.run(2 * time.Second)
	near(t, "the window", p.c.window(), 2*100_000*101/1000, 3)
	near(t, "what is outstanding", p.c.out, 2*100_000*101/1000, 3)
}

// If answers accumulate while the driver is busy elsewhere, and it then handles all at once, the
// measured rate does not rise.
func TestLateDriver(t *testing.T) {
	p := newPipe(20*ms, 100_000)
	p.run(3 * time.Second)
	near(t, "the rate", p.c.rate(), 100_000, 3)
	for range 5 {
		p.now += 500 * ms
		p.run(time.Second)
	}
	near(t, "the rate", p.c.rate(), 100_000, 10)
	near(t, "the window", p.c.target(), 4200, 10)
}

// If requests are rare because the reader is slow, the measured rate does not fall.
func TestRateWithoutRequests(t *testing.T) {
	p := newPipe(100*ms, 100_000)
	p.run(3 * time.Second)
	for range 50 {
		p.fill(1)
		for len(p.flights) > 0 {
			p.answer()
		}
		p.now += 50 * ms
	}
	near(t, "the rate", p.c.rate(), 100_000, 3)
	near(t, "the window", p.c.target(), 20_200, 5)
}

// Idle time does not lower the measured rate.
func TestRateAfterIdling(t *testing.T) {
	p := newPipe(100*ms, 1_000_000)
	for range 2 {
		p.fill(math.MaxInt)
		sent := p.c.out
		for len(p.flights) > 0 {
			p.answer()
		}
		near(t, "the window", p.c.window(), 2*sent, 2)
		p.now += 5 * time.Second
	}
}

// If the answer to an old request arrives after the answers to many later ones, the old request's
// sending time does not distort the rate of the requests that are sent next.
func TestRateOutOfOrder(t *testing.T) {
	p := newPipe(100*ms, 1_000_000)
	p.fill(1)
	stray := p.flights[0]
	p.flights = nil
	p.run(2 * time.Second)
	for len(p.flights) > 1 {
		p.answer()
	}
	p.c.answered(p.now, stray.f, 100)
	p.fill(4)
	p.answer()
	p.c.best, p.c.before = 0, 0
	for len(p.flights) > 0 {
		p.answer()
	}
	// The rate is 400 units in the 160 ms since the latest of the answered requests was sent.
	near(t, "the rate", p.c.rate(), 400*1000/160, 10)
}

// The clock never moves backwards, and a round trip that took no time does not count as 0.
func TestClock(t *testing.T) {
	c := newControl(1, 100)
	base := time.Unix(1_000_000, 0)
	if at := c.clock(base); at != 0 {
		t.Errorf("the first time is %v", at)
	}
	if at := c.clock(base.Add(time.Second)); at != time.Second {
		t.Errorf("a second later is %v", at)
	}
	f := c.sent(c.clock(base), 1)
	if f.sentAt != time.Second {
		t.Errorf("sent at %v", f.sentAt)
	}
	c.answered(c.clock(base.Add(-time.Hour)), f, 1)
	if c.least != minTrip || c.window() < 1 || c.window() > 100 {
		t.Errorf("round trip %v, window %d", c.least, c.window())
	}
}

func TestMulDiv(t *testing.T) {
	for _, test := range []struct{ a, b, c, want int64 }{
		{7, 6, 4, 10},
		{0, math.MaxInt64, 1, 0},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{math.MaxInt64, 3, 2, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64, 1, math.MaxInt64},
		{1_250_000_000, int64(time.Hour), int64(time.Second), 4_500_000_000_000},
	} {
		if got := mulDiv(test.a, test.b, test.c); got != test.want {
			t.Errorf("%d*%d/%d = %d, want %d", test.a, test.b, test.c, got, test.want)
		}
	}
}
