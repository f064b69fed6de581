package pipeline

import "time"

// OpsLimits bound an Ops. A field that is zero stands for its default.
type OpsLimits struct {
	Min int // the smallest window, and the first one, in requests; 0 means 16
	Max int // the largest window, in requests, at most MaxOutstanding; 0 means 1024
}

const (
	defaultMinOps = 16
	defaultMaxOps = 1024
)

// An Ops decides how many requests without data, such as stat, open, close and readdir, may be
// outstanding. It uses the same rule as a Link, but counts requests instead of bytes: window = 2 x
// highest rate of answers x shortest round trip.
//
// A driver calls Next until it returns false, and again after each answer. The driver has to
// remember the purpose and the session of each request.
type Ops struct {
	requests control
	table    table[flight]
}

// NewOps returns an Ops without outstanding requests.
func NewOps(l OpsLimits) *Ops {
	floor, ceiling := orDefault(l.Min, defaultMinOps), min(orDefault(l.Max, defaultMaxOps), MaxOutstanding)
	return &Ops{requests: newControl(int64(floor), int64(ceiling)), table: newTable[flight]()}
}

// Next returns the id of a request to send. It returns false if another request must be answered
// first. The id differs from those of all other requests outstanding here, and its top bit is
// clear. A Link may use the same ids.
func (o *Ops) Next(now time.Time) (id uint32, ok bool) {
	t := o.requests.clock(now)
	if !o.requests.room(1) || o.table.full() {
		o.requests.refused(t)
		return 0, false
	}
	_, id = o.table.add(o.requests.sent(t, 1))
	return id, true
}

// Reply reports that a request was answered, successfully or not. It returns false for an id that
// is not outstanding.
func (o *Ops) Reply(now time.Time, id uint32) bool {
	x := o.table.find(id)
	if x == none {
		return false
	}
	f := *o.table.at(x)
	o.table.remove(x)
	o.requests.answered(o.requests.clock(now), f, 1)
	return true
}

// Lost reports that a request will get no answer, because its session is lost. It returns false for
// an id that is not outstanding.
func (o *Ops) Lost(id uint32) bool {
	x := o.table.find(id)
	if x == none {
		return false
	}
	o.requests.lost(*o.table.at(x))
	o.table.remove(x)
	return true
}

// Window returns how many requests may be outstanding now.
func (o *Ops) Window() int { return max(int(o.requests.window()), 1) }

// Outstanding returns how many requests are outstanding.
func (o *Ops) Outstanding() int { return int(o.requests.out) }

// RoundTrip returns the shortest round trip of the recent past, or 0 before the first.
func (o *Ops) RoundTrip() time.Duration { return o.requests.least }

// Shortest returns the shortest round trip ever, or 0 before the first.
func (o *Ops) Shortest() time.Duration { return o.requests.shortest }
