package pipeline

import (
	"math/bits"
	"time"
)

// Limits bound a link. A field that is zero stands for its default.
type Limits struct {
	LaneBytes int // most bytes outstanding on one lane
	MinBytes  int // the smallest window, and the first one
	MaxBytes  int // the largest window. It bounds the memory, except for one request of each plan: see Plan.room
	Lanes     int // most lanes; values above MaxLanes mean MaxLanes
	Requests  int // most outstanding requests, from 1 to MaxOutstanding, which is the default
}

// A Link represents the path to one server. The plans that use it share it.
type Link struct {
	laneBytes int64
	most      int // most lanes
	requests  int // most outstanding requests
	bytes     control
	table     table[request]
	lanes     [MaxLanes]int64 // bytes outstanding on each lane
	heldBytes int64           // bytes of outstanding requests that are held
	open      uint64          // lanes that have requested work, one bit for each
}

// A request is an outstanding request.
type request struct {
	flight
	plan  *Plan
	off   int64
	lane  int32
	piece int32 // the piece that it is for; none if its answer is not needed any more

	// These are its links in the list of the plan's requests by age. A request that was repeated,
	// and its repetition, are not in the list.
	older, younger int32
	waits          bool

	held bool // it is not on its way: see Config.Held and Hold
}

// NewLink returns a link without outstanding requests.
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

// Widen adds n bytes to the window that the rule gives. It is for new lanes with a path of their
// own, whose rate is not known yet: until it is, the bytes outstanding there would be missing on
// the other lanes.
func (k *Link) Widen(n int) { k.bytes.extra = int64(max(n, 0)) }

// SetFloor sets the smallest window, which is [Limits].MinBytes at first.
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

// Full reports whether no more requests may be outstanding.
func (k *Link) Full() bool { return k.table.used >= k.requests }

// RoundTrip returns the least recent round trip, or 0 before the first.
func (k *Link) RoundTrip() time.Duration { return k.bytes.least }

// Shortest returns the shortest round trip ever, or 0 before the first. It is an upper bound of the
// distance.
func (k *Link) Shortest() time.Duration { return k.bytes.shortest }

// Moved returns how many bytes have moved.
func (k *Link) Moved() int64 { return k.bytes.delivered }

// Rate returns the best recent rate, in bytes per second.
func (k *Link) Rate() int64 { return k.bytes.rate() }

// lanesFor returns how many lanes are useful when left bytes remain: as many as the window fills,
// or soon will fill, at least 1 and at most the limit. Lanes that are open already need not be
// closed when the window shrinks.
func (k *Link) lanesFor(left int64) int {
	want := k.bytes.target()
	if c := &k.bytes; c.delivered >= c.floor && c.smooth-c.least <= c.least/4 && want >= int64(bits.OnesCount64(k.open))*k.laneBytes {
		// Answers wait in no queue, so the lanes are full and the path is not. Opening a lane takes
		// some round trips, so this uses the window that will be reached by then.
		want = min(lookAhead*want, c.ceiling)
	}
	want = min(want, left)
	return int(min(max((want+k.laneBytes-1)/k.laneBytes, 1), int64(k.most)))
}

// lookAhead is the factor by which a window grows while a lane is opened.
const lookAhead = 2

// LimitLanes records that the server allows no more than n lanes.
func (k *Link) LimitLanes(n int) { k.most = min(max(n, 1), k.most) }

// LaneLost returns the requests outstanding on a lane to their plans, for other lanes or for a new
// lane with this number. The ids of later answers on that lane are unknown, so call LaneLost after
// the last answer was handled.
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

// Lost is like [Link.LaneLost] for one request, whose answer is not used. It ignores an id that is
// not outstanding.
func (k *Link) Lost(id uint32) {
	if i := k.table.find(id); i != none {
		k.table.at(i).plan.lost(i)
	}
}

// A Range is the bytes from Start up to, but not including, End.
type Range struct{ Start, End int64 }

// A Pending describes an outstanding request.
type Pending struct {
	Plan    *Plan
	Request Request
	Lane    int
	Missing Range // the part that is still needed; empty if no part is
}

// Find returns the outstanding request with an id. It returns false if no outstanding request has
// that id.
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

// Hold records that the answer to a request has arrived, but that its bytes are not stored yet. It
// ignores an id that is not outstanding.
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

// Sent records that a request of a plan with [Config].Held was sent, so that it is no longer held.
// It ignores an id that is not outstanding.
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

// room reports whether the window and a lane have room for n more bytes.
func (k *Link) room(now time.Duration, lane int, n int64) bool {
	if k.lanes[lane]+n > k.laneBytes || !k.bytes.room(n) || k.Full() {
		k.bytes.refused(now)
		return false
	}
	return true
}

// remove removes an outstanding request, and returns it.
func (k *Link) remove(i int32) request {
	r := *k.table.at(i)
	if r.held {
		k.heldBytes -= r.units
	}
	k.lanes[r.lane] -= r.units
	k.table.remove(i)
	return r
}
