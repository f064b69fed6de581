package pipeline

import (
	"math"
	"math/bits"
	"time"
)

// A control decides how much may be outstanding on a path: too little leaves the path idle, and too
// much fills the queues on it. The rule is: window = 2 x best delivery rate x shortest round trip,
// between a floor and a ceiling. While the path is not full, the rate that is measured in each
// round trip is about window / round trip, so the rule doubles the window. Once the path is full,
// the window stays at two bandwidth-delay products, whatever it was before. Both measurements come
// from the recent past, so that the window follows a path that changes.
//
// The rule has one problem. When two bandwidth-delay products are outstanding, every answer waits in
// a queue that we cause ourselves. After a while, all recorded round trips include the time in that
// queue, and a window computed from them would double again and again. So when the recorded
// shortest round trip is old, the window is reduced to half a bandwidth-delay product, until one
// request has passed through an empty path.
const (
	// The shortest round trip is used for leastAge, or for leastTrips times its length if that is
	// longer. Then it is measured again, which takes about one round trip.
	leastAge   = 10 * time.Second
	leastTrips = 64

	// The best rate is used for at least rateAge, or for at least rateTrips times the shortest round
	// trip if that is longer. It is used for at most twice that time.
	rateAge   = time.Second
	rateTrips = 8

	// minTrip is the shortest round trip that is assumed, even if the clock shows less.
	minTrip = time.Microsecond
)

// A control implements the rule that is explained above. It counts in units, which are bytes or
// requests.
type control struct {
	floor, ceiling int64
	extra          int64 // units added to the window that the rule gives: see Link.Widen

	epoch time.Time
	now   time.Duration // latest time seen, since epoch; it never decreases
	out   int64         // number of outstanding units

	// The rate is computed from the next three fields, as in
	// draft-cheng-iccrg-delivery-rate-estimation. A sample spans the time in which its units were
	// sent, or the time in which they were answered, whichever is longer. So answers that
	// accumulate while the driver is late do not suggest a rate that the path does not have. When a
	// request is sent while none is outstanding, deliveredAt and sentAt are set to that time, so
	// that idle time does not count.
	delivered   int64         // number of units that have moved so far
	deliveredAt time.Duration // when the latest answer was handled
	sentAt      time.Duration // when the latest of the answered requests was sent
	refusedAt   time.Duration // when a request last had to wait for room in a window; -1 if none had to

	best, before int64         // highest rate in units per second, in this period and in the one before
	period       time.Duration // when this period began

	smooth  time.Duration // mean round trip, including the time in queues
	least   time.Duration // shortest recent round trip; 0 before the first
	leastAt time.Duration // when `least` was last measured or confirmed

	shortest time.Duration // shortest round trip ever; 0 before the first

	probe  uint32        // number of the latest measurement of `least`
	probes bool          // the measurement with the number in `probe` is under way
	stale  time.Duration // value of `least` when the latest measurement began
}

// A flight holds the data that a control keeps about an outstanding request.
type flight struct {
	units       int64
	sentAt      time.Duration
	firstSent   time.Duration // value of control.sentAt when the request was sent
	delivered   int64         // value of control.delivered when the request was sent
	deliveredAt time.Duration // value of control.deliveredAt when the request was sent
	probe       uint32        // number of the measurement that the request is part of; 0 for none
}

func newControl(floor, ceiling int64) control {
	return control{floor: min(floor, ceiling), ceiling: ceiling, refusedAt: -1}
}

// clock returns the time from its first call to `now`.
func (c *control) clock(now time.Time) time.Duration {
	if c.epoch.IsZero() {
		c.epoch = now
	}
	c.now = max(c.now, now.Sub(c.epoch))
	return c.now
}

// rate returns the best recorded rate, in units per second.
func (c *control) rate() int64 { return max(c.best, c.before) }

// target returns the window that the rule gives, between the floor and the ceiling. It ignores that
// a measurement makes the window smaller: see window.
func (c *control) target() int64 {
	rule := mulDiv(c.rate(), 2*int64(c.least), int64(time.Second))
	if rule > 0 {
		rule = min(rule, c.ceiling) + c.extra
	}
	return min(max(rule, c.floor), c.ceiling)
}

// window returns how many units may be outstanding now. A single request may always be outstanding,
// however large it is.
func (c *control) window() int64 {
	if c.probes {
		return min(mulDiv(c.rate(), int64(c.least)/2, int64(time.Second)), c.target())
	}
	return c.target()
}

// room reports whether the window has room for more units.
func (c *control) room(units int64) bool {
	return c.out == 0 || c.out+units <= c.window()
}

// refused records that a request had to wait because a window was full. Only then does a lower rate
// say something about the path; otherwise the driver may just have less to request.
func (c *control) refused(now time.Duration) { c.refusedAt = now }

// sent records a request that is sent.
func (c *control) sent(now time.Duration, units int64) flight {
	if c.out == 0 {
		c.deliveredAt, c.sentAt = now, now
		c.check(now) // no other request can disturb a measurement now
	}
	c.out += units
	f := flight{units: units, sentAt: now, firstSent: c.sentAt, delivered: c.delivered, deliveredAt: c.deliveredAt}
	if c.probes {
		f.probe = c.probe
	}
	return f
}

// answered records that a request was answered, and how many units moved.
func (c *control) answered(now time.Duration, f flight, moved int64) {
	c.out -= f.units
	c.delivered += moved
	c.deliveredAt, c.sentAt = now, max(c.sentAt, f.sentAt)
	c.measureTrip(now, f)
	c.measureRate(now, f)
	c.check(now)
}

// lost records that a request will get no answer.
func (c *control) lost(f flight) { c.out -= f.units }

func (c *control) measureTrip(now time.Duration, f flight) {
	trip := max(now-f.sentAt, minTrip)
	if c.smooth == 0 {
		c.smooth = trip
	}
	c.smooth += (trip - c.smooth) / 8
	if c.shortest == 0 || trip < c.shortest {
		c.shortest = trip
	}
	switch {
	case c.probes && f.probe == c.probe:
		c.probes = false
		c.least, c.leastAt = trip, now
		switch {
		case trip < c.stale-c.stale/4:
			// The window during the measurement was computed from the old value, and still caused a
			// queue.
			c.remeasure()
		case trip > c.stale+c.stale/4:
			// Either the path has become longer, or it has become so slow that the window during the
			// measurement, computed from the old rate, caused a queue. So the rate is measured again
			// too. If the path is longer, the window then doubles. If it is slower, the window stays
			// the same.
			c.best, c.before = 0, 0
		}
	case c.least == 0 || trip < c.least:
		c.least, c.leastAt = trip, now
	case trip-c.least <= c.least/8:
		c.leastAt = now
	}
}

func (c *control) measureRate(now time.Duration, f flight) {
	span := max(f.sentAt-f.firstSent, now-f.deliveredAt, minTrip)
	rate := mulDiv(c.delivered-f.delivered, int64(time.Second), int64(span))
	known := c.rate()
	if rate >= known {
		c.best = rate
		return
	}
	if c.refusedAt < f.sentAt {
		return // slow only because there were no requests to send
	}
	if now-c.period >= max(rateAge, rateTrips*c.least) {
		c.before, c.best, c.period = c.best, 0, now
	}
	c.best = max(c.best, rate)
	if c.rate() < known-known/4 {
		// The path may be slower or longer. If it is longer, a window computed from the old round
		// trip would reduce the rate further.
		c.remeasure()
	}
}

// check starts a measurement of the shortest round trip when the current value is old.
func (c *control) check(now time.Duration) {
	if c.least > 0 && now-c.leastAt > max(leastAge, leastTrips*c.least) {
		c.remeasure()
	}
}

// remeasure starts a measurement of the shortest round trip, unless one is under way.
func (c *control) remeasure() {
	if !c.probes {
		c.probes, c.stale = true, c.least
		c.probe = max(c.probe+1, 1)
	}
}

// mulDiv returns a*b/c for values that are not negative, or math.MaxInt64 if the result is larger.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, math.MaxInt64))
}
