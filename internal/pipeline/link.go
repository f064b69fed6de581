package pipeline

import (
	"math/bits"
	"time"
)

// Limits bound a link. In each field zero stands for the default.
type Limits struct {
	LaneBytes int // most bytes outstanding on one lane
	MinBytes  int // the window's floor, and where it begins
	MaxBytes  int // the window's ceiling: the bound on memory, but for one request of each plan: see Plan.room
	Lanes     int // most lanes; above MaxLanes means MaxLanes
	Requests  int // most requests outstanding, 1 to MaxOutstanding, which is the default
}

// A Link is the way to one server, shared by the plans that use it.
type Link struct {
	laneBytes int64
	most      int // lanes
	requests  int // most that are outstanding
	bytes     control
	table     table[request]
	lanes     [MaxLanes]int64 // bytes outstanding on each
	heldBytes int64           // of the bytes outstanding, those of requests that are held
	open      uint64          // lanes that have asked for work, one bit each
}

// A request is one that is outstanding.
type request struct {
	flight
	plan  *Plan
	off   int64
	lane  int32
	piece int32 // what is missing of it; none if nothing is

	// Its place among the plan's requests by age. Requests that were
	// repeated, and repetitions, have no place.
	older, younger int32
	waits          bool

	held bool // it is not under way: see Config.Held and Hold
}

// NewLink returns a link with nothing outstanding.
func NewLink(l Limits) *Link {
	ceiling := orDefault(l.MaxBytes, DefaultMaxBytes)
	return &Link{
		laneBytes: int64(orDefault(l.LaneBytes, DefaultLaneBytes)),
		most:      min(orDefault(l.Lanes, DefaultLanes), MaxLanes),
		requests:  min(orDefault(l.Requests, MaxOutstanding), MaxOutstanding),
		bytes:     newControl(int64(orDefault(l.MinBytes, DefaultMinBytes)), int64(ceiling)),
		table:     newTable[request](),
	}
}

func orDefault(n, otherwise int) int {
	if n <= 0 {
		return otherwise
	}
	return n
}

// Widen adds n bytes to what the rule says of the window: for lanes that take a
// way of their own, and have yet to show how fast it is. Until then what is
// outstanding there would be missing on the others.
func (k *Link) Widen(n int) { k.bytes.extra = int64(max(n, 0)) }

// SetFloor sets the window's floor, [Limits].MinBytes until then.
func (k *Link) SetFloor(n int) { k.bytes.floor = min(int64(n), k.bytes.ceiling) }

// Window returns how many bytes may be outstanding now.
func (k *Link) Window() int { return int(k.bytes.window()) }

// Outstanding returns how many bytes are outstanding on a lane.
func (k *Link) Outstanding(lane int) int {
	if lane < 0 || lane >= MaxLanes {
		return 0
	}
	return int(k.lanes[lane])
}

// Full reports whether as many requests are outstanding as may be.
func (k *Link) Full() bool { return k.table.used >= k.requests }

// RoundTrip returns the least round trip of late, or 0 before the first.
func (k *Link) RoundTrip() time.Duration { return k.bytes.least }

// Shortest returns the shortest round trip ever, or 0 before the first. No distance is
// longer.
func (k *Link) Shortest() time.Duration { return k.bytes.shortest }

// Moved returns how many bytes were moved.
func (k *Link) Moved() int64 { return k.bytes.delivered }

// Rate returns the best rate of late, bytes a second.
func (k *Link) Rate() int64 { return k.bytes.rate() }

// lanesFor returns how many lanes are worth having for so many bytes: those that the
// window fills, or soon will, at least 1, and never more than the limit. Lanes that are
// open already need not be closed when the window falls.
func (k *Link) lanesFor(left int64) int {
	want := k.bytes.target()
	if c := &k.bytes; c.delivered >= c.floor && c.smooth-c.least <= c.least/4 && want >= int64(bits.OnesCount64(k.open))*k.laneBytes {
		// Answers wait for nothing, so the path is not full and the lanes are.
		// To open one takes some round trips: this is where the window will
		// be by then.
		want = min(lookAhead*want, c.ceiling)
	}
	want = min(want, left)
	return int(min(max((want+k.laneBytes-1)/k.laneBytes, 1), int64(k.most)))
}

// lookAhead is by how much a window grows while a lane opens.
const lookAhead = 2

// LimitLanes notes that the server grants no more than n lanes.
func (k *Link) LimitLanes(n int) { k.most = min(max(n, 1), k.most) }

// LaneLost gives what is outstanding on a lane back to its plans, for other
// lanes or for a new one of this number. Answers of the lane that come later
// are unknown: call it when the last one has been dealt with.
func (k *Link) LaneLost(lane int) {
	if lane < 0 || lane >= MaxLanes {
		return
	}
	for i := range k.table.slots {
		if s := &k.table.slots[i]; s.taken && int(s.value.lane) == lane {
			s.value.plan.lost(int32(i))
		}
	}
	k.open &^= 1 << lane
}

// Lost is [Link.LaneLost] for one request, whose answer is not used. An id that is not
// outstanding is passed over.
func (k *Link) Lost(id uint32) {
	if i := k.table.find(id); i != none {
		k.table.at(i).plan.lost(i)
	}
}

// A Range is the bytes from Start up to, not including, End.
type Range struct{ Start, End int64 }

// A Pending is a request that is outstanding.
type Pending struct {
	Plan    *Plan
	Request Request
	Lane    int
	Missing Range // the part that is yet to be brought; empty if it is not needed any more
}

// Find returns the request of an id, and false if none is outstanding under it.
func (k *Link) Find(id uint32) (Pending, bool) {
	i := k.table.find(id)
	if i == none {
		return Pending{}, false
	}
	r := k.table.at(i)
	p := Pending{Plan: r.plan, Request: Request{ID: id, Offset: r.off, Len: int(r.units)}, Lane: int(r.lane)}
	if r.piece != none {
		s := &r.plan.pieces.all[r.piece]
		p.Missing = Range{s.off, s.end}
	}
	return p, true
}

// Hold notes that the answer to a request has come, but that its bytes have yet to be stored.
// An id that is not outstanding is passed over.
func (k *Link) Hold(id uint32) {
	i := k.table.find(id)
	if i == none {
		return
	}
	if r := k.table.at(i); !r.held {
		r.held = true
		k.heldBytes += r.units
	}
}

// Sent notes that a request of a plan with [Config].Held has gone out, and is not held any more.
// An id that is not outstanding is passed over.
func (k *Link) Sent(id uint32) {
	i := k.table.find(id)
	if i == none {
		return
	}
	if r := k.table.at(i); r.held {
		r.held = false
		k.heldBytes -= r.units
	}
}

// room reports whether the window and a lane hold n bytes more.
func (k *Link) room(now time.Duration, lane int, n int64) bool {
	if k.lanes[lane]+n > k.laneBytes || !k.bytes.room(n) || k.Full() {
		k.bytes.refused(now)
		return false
	}
	return true
}

// remove forgets an outstanding request and returns it.
func (k *Link) remove(i int32) request {
	r := *k.table.at(i)
	if r.held {
		k.heldBytes -= r.units
	}
	k.lanes[r.lane] -= r.units
	k.table.remove(i)
	return r
}
