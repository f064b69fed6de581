package pipeline

import (
	"math"
	"math/bits"
	"time"
)

// The control rule: window = 2 x best delivery rate x least round trip, between
// a floor and a ceiling. While the path is not full each round trip proves a
// rate near window / round trip, so the rule doubles the window; once the path
// is full the window stays at two bandwidth-delay products, whatever it was
// before. Both measures are of the recent past, so that a changed path is
// followed.
//
// Best and least have one trap. With two products outstanding every answer
// waits in a queue of our own making, so that after a while no round trip on
// record is free of it, and a window computed from such would double again and
// again. So when the least round trip is old, the window is drained to half a
// product until one request has made its way through an empty path.
const (
	// leastAge is how long the least round trip is believed, or leastTrips of
	// them if that is longer: to measure it anew costs about one.
	leastAge   = 10 * time.Second
	leastTrips = 64

	// rateAge is how long the best rate is believed at the least, and twice as
	// long at most; rateTrips least round trips if that is longer.
	rateAge   = time.Second
	rateTrips = 8

	// minTrip is the shortest round trip believed, whatever the clock says.
	minTrip = time.Microsecond
)

// A control holds the rule. It counts in units: bytes, or requests.
type control struct {
	floor, ceiling int64
	extra          int64 // units on top of the rule: see Link.Widen

	epoch time.Time
	now   time.Duration // latest time seen, since epoch: it does not go back
	out   int64         // units outstanding

	// A rate is computed from these, as in draft-cheng-iccrg-delivery-rate-
	// estimation: a sample spans the longer of the time in which its units were
	// sent and that in which they came, so that answers that pile up in front
	// of a late driver prove no rate that the path does not have.
	delivered   int64         // units answered
	deliveredAt time.Duration // when the latest of them was
	sentAt      time.Duration // when the last sent of them was sent
	refusedAt   time.Duration // when the window, or a lane's, last said no

	best, before int64         // highest rate, units a second, in this period and the one before
	period       time.Duration // when this one began

	smooth  time.Duration // mean round trip, queues included
	least   time.Duration // least round trip; 0 before the first
	leastAt time.Duration // when it was last confirmed

	shortest time.Duration // round trip of all, however old; 0 before the first

	probe  uint32        // number of the latest measurement of least
	probes bool          // it is under way
	stale  time.Duration // least when it began
}

// A flight is what a control remembers of a request.
type flight struct {
	units       int64
	sentAt      time.Duration
	firstSent   time.Duration
	delivered   int64
	deliveredAt time.Duration
	probe       uint32 // sent to measure the least round trip; 0 if not
}

func newControl(floor, ceiling int64) control {
	return control{floor: min(floor, ceiling), ceiling: ceiling, refusedAt: -1}
}

// clock returns now as a time since the first.
func (c *control) clock(now time.Time) time.Duration {
	if c.epoch.IsZero() {
		c.epoch = now
	}
	c.now = max(c.now, now.Sub(c.epoch))
	return c.now
}

// rate returns the best rate on record, units a second.
func (c *control) rate() int64 { return max(c.best, c.before) }

// target returns the window by the rule.
func (c *control) target() int64 {
	rule := mulDiv(c.rate(), 2*int64(c.least), int64(time.Second))
	if rule > 0 {
		rule = min(rule, c.ceiling) + c.extra
	}
	return min(max(rule, c.floor), c.ceiling)
}

// window returns how many units may be outstanding now. One request may always
// be, however large it is.
func (c *control) window() int64 {
	if c.probes {
		return min(mulDiv(c.rate(), int64(c.least)/2, int64(time.Second)), c.target())
	}
	return c.target()
}

// room reports whether the window holds so many units more.
func (c *control) room(units int64) bool {
	return c.out == 0 || c.out+units <= c.window()
}

// refused notes that it was us, and not the want of anything to ask, that kept
// a request back. Only then is a rate that falls a sign of the path.
func (c *control) refused(now time.Duration) { c.refusedAt = now }

// sent notes a request.
func (c *control) sent(now time.Duration, units int64) flight {
	if c.out == 0 {
		c.deliveredAt, c.sentAt = now, now
		c.check(now) // nothing is in the way of a measurement
	}
	c.out += units
	f := flight{units: units, sentAt: now, firstSent: c.sentAt, delivered: c.delivered, deliveredAt: c.deliveredAt}
	if c.probes {
		f.probe = c.probe
	}
	return f
}

// answered notes that a request has its answer, which moved so many units.
func (c *control) answered(now time.Duration, f flight, moved int64) {
	c.out -= f.units
	c.delivered += moved
	c.deliveredAt, c.sentAt = now, max(c.sentAt, f.sentAt)
	c.measureTrip(now, f)
	c.measureRate(now, f)
	c.check(now)
}

// lost notes that a request will have no answer.
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
			// Half a product by the old measure was still a queue.
			c.remeasure()
		case trip > c.stale+c.stale/4:
			// The path is longer. Or it is so much slower that half a product
			// by the old rate is a queue in it. With the rate measured anew as
			// well the window is the same as before in the latter case, and
			// doubles from there in the former.
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
		return // slow for want of requests
	}
	if now-c.period >= max(rateAge, rateTrips*c.least) {
		c.before, c.best, c.period = c.best, 0, now
	}
	c.best = max(c.best, rate)
	if c.rate() < known-known/4 {
		// Is the path slower, or longer? In the latter case a window by the old
		// round trip would make it slower still.
		c.remeasure()
	}
}

// check begins to measure the least round trip when it is old.
func (c *control) check(now time.Duration) {
	if c.least > 0 && now-c.leastAt > max(leastAge, leastTrips*c.least) {
		c.remeasure()
	}
}

func (c *control) remeasure() {
	if !c.probes {
		c.probes, c.stale = true, c.least
		c.probe = max(c.probe+1, 1)
	}
}

// mulDiv returns a*b/c for values that are not negative, or the highest int64
// if that is less.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, math.MaxInt64))
}
