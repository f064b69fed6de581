package pipeline

import "time"

// OpsLimits bound an Ops. In each field zero stands for the default.
type OpsLimits struct {
	Min int // the window's floor, and where it begins; 0 means 16 requests
	Max int // the window's ceiling; 0 means 1024, and MaxOutstanding is the most
}

const (
	defaultMinOps = 16
	defaultMaxOps = 1024
)

// An Ops decides how many small requests may be outstanding, those that carry
// no data: stat, open, close, readdir. It is the rule of a Link counted in
// requests: window = 2 x most requests answered in a time x least round trip.
//
// A driver calls Next until it says no, and after each answer again. The driver
// knows what a request was for, and which lane it went down.
type Ops struct {
	requests control
	table    table[flight]
}

// NewOps returns an Ops with nothing outstanding.
func NewOps(l OpsLimits) *Ops {
	floor, ceiling := orDefault(l.Min, defaultMinOps), min(orDefault(l.Max, defaultMaxOps), MaxOutstanding)
	return &Ops{requests: newControl(int64(floor), int64(ceiling)), table: newTable[flight]()}
}

// Next returns the id of a request to send, and false if one must be answered
// first. Ids are those of no other request outstanding here, and their top bit
// is clear; a Link may use the same ids.
func (o *Ops) Next(now time.Time) (id uint32, ok bool) {
	t := o.requests.clock(now)
	if !o.requests.room(1) || o.table.full() {
		o.requests.refused(t)
		return 0, false
	}
	_, id = o.table.add(o.requests.sent(t, 1))
	return id, true
}

// Reply reports that a request was answered, with success or not. It is false
// for an id that is not outstanding.
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

// Lost reports that a request will have no answer: its lane is gone. It is false
// for an id that is not outstanding.
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

// Outstanding returns how many are.
func (o *Ops) Outstanding() int { return int(o.requests.out) }

// RoundTrip returns the least round trip of late, or 0 before the first.
func (o *Ops) RoundTrip() time.Duration { return o.requests.least }

// Shortest returns the shortest round trip ever, or 0 before the first.
func (o *Ops) Shortest() time.Duration { return o.requests.shortest }
