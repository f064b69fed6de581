package pipeline

import (
	"math/bits"
	"time"
)

// Limits bound a link. A field that is zero stands for its default.
type Limits struct {
	SessionBytes int // maximum number of bytes outstanding on one session
	MinBytes     int // the smallest window, in bytes, and the first one
	// MaxBytes is the largest window, in bytes. It bounds the memory, except for one request of
	// each plan: see Plan.room.
	MaxBytes int
	Sessions int // maximum number of sessions; values above MaxSessions mean MaxSessions
	Requests int // maximum number of outstanding requests, from 1 to MaxOutstanding, which is the default
}

// A Link represents the path to one server. All plans that use a path share its Link.
type Link struct {
	sessionBytes int64
	most         int // maximum number of sessions
	requests     int // maximum number of outstanding requests
	bytes        control
	table        table[request]
	sessions     [MaxSessions]int64 // bytes outstanding on each session
	heldBytes    int64              // bytes of outstanding requests that are held
	open         uint64             // one bit for each session for which Next was called
}

// A request is an outstanding request, in the table of its link.
type request struct {
	flight
	plan    *Plan
	off     int64
	session int32
	piece   int32 // index of the piece whose bytes are requested; `none` if the answer is not needed any more

	// These are the neighbours in Plan.ages, the list of requests that may be repeated. A request
	// that was repeated, and its repetition, are not in that list.
	older, younger int32
	waits          bool // the request is in the list Plan.ages

	// The driver has not sent the request yet, or the answer has arrived and is not stored yet: see
	// Config.Held and Hold.
	held bool
}

// NewLink returns a link without outstanding requests.
func NewLink(l Limits) *Link {
	ceiling := orDefault(l.MaxBytes, DefaultMaxBytes)
	return &Link{
		sessionBytes: int64(orDefault(l.SessionBytes, DefaultSessionBytes)),
		most:         min(orDefault(l.Sessions, DefaultSessions), MaxSessions),
		requests:     min(orDefault(l.Requests, MaxOutstanding), MaxOutstanding),
		bytes:        newControl(int64(orDefault(l.MinBytes, DefaultMinBytes)), int64(ceiling)),
		table:        newTable[request](),
	}
}

func orDefault(n, otherwise int) int {
	if n <= 0 {
		return otherwise
	}
	return n
}

// Widen adds n bytes to the window that the rule of [control] yields. It is for new sessions that use
// another path, whose rate is not known yet. Without Widen, the bytes outstanding on the new sessions
// would take up the room of the other sessions until that rate is measured.
func (k *Link) Widen(n int) { k.bytes.extra = int64(max(n, 0)) }

// SetFloor sets the smallest window, which is [Limits].MinBytes at first.
func (k *Link) SetFloor(n int) { k.bytes.floor = min(int64(n), k.bytes.ceiling) }

// Window returns how many bytes may be outstanding now.
func (k *Link) Window() int { return int(k.bytes.window()) }

// Outstanding returns how many bytes are outstanding on a session.
func (k *Link) Outstanding(session int) int {
	if session < 0 || session >= MaxSessions {
		return 0
	}
	return int(k.sessions[session])
}

// Full reports whether no more requests may be outstanding.
func (k *Link) Full() bool { return k.table.used >= k.requests }

// RoundTrip returns the shortest round trip of the recent past, or 0 before the first.
func (k *Link) RoundTrip() time.Duration { return k.bytes.least }

// Shortest returns the shortest round trip ever, or 0 before the first. A round trip without any
// queue takes at most that long.
func (k *Link) Shortest() time.Duration { return k.bytes.shortest }

// Moved returns how many bytes have moved.
func (k *Link) Moved() int64 { return k.bytes.delivered }

// Rate returns the best recent rate, in bytes per second.
func (k *Link) Rate() int64 { return k.bytes.rate() }

// sessionsFor returns how many sessions are useful for the `left` bytes that remain: as many as the
// window fills, or will fill soon, but at least 1 and at most the limit. Sessions that are open
// already need not be closed when the window shrinks.
func (k *Link) sessionsFor(left int64) int {
	want := k.bytes.target()
	if c := &k.bytes; c.delivered >= c.floor && c.smooth-c.least <= c.least/4 && want >= int64(bits.OnesCount64(k.open))*k.sessionBytes {
		// Answers do not wait in a queue, so the sessions are full but the path is not. Opening a
		// session takes some round trips, so use the window that will be reached by then.
		want = min(lookAhead*want, c.ceiling)
	}
	want = min(want, left)
	return int(min(max((want+k.sessionBytes-1)/k.sessionBytes, 1), int64(k.most)))
}

// lookAhead is the factor by which a window grows while a session is opened.
const lookAhead = 2

// LimitSessions records that the server allows no more than n sessions.
func (k *Link) LimitSessions(n int) { k.most = min(max(n, 1), k.most) }

// SessionLost returns the requests outstanding on a session to their plans, which request the same
// bytes again on other sessions, or on a new session with this number. Call it after the last answer
// was handled: later answers on that session would have unknown ids.
func (k *Link) SessionLost(session int) {
	if session < 0 || session >= MaxSessions {
		return
	}
	for i := range k.table.slots {
		if s := &k.table.slots[i]; s.taken && int(s.value.session) == session {
			s.value.plan.lost(int32(i))
		}
	}
	k.open &^= 1 << session
}

// Lost is like [Link.SessionLost] for one request, whose answer will not be used. It ignores an id
// that is not outstanding.
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
	Session int
	Missing Range // the bytes of the request that are still needed; empty if none are
}

// Find returns the outstanding request with an id. It returns false if no outstanding request has
// that id.
func (k *Link) Find(id uint32) (Pending, bool) {
	i := k.table.find(id)
	if i == none {
		return Pending{}, false
	}
	r := k.table.at(i)
	p := Pending{Plan: r.plan, Request: Request{ID: id, Offset: r.off, Len: int(r.units)}, Session: int(r.session)}
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

// room reports whether both the window of the link and that of a session have room for n more bytes.
func (k *Link) room(now time.Duration, session int, n int64) bool {
	if k.sessions[session]+n > k.sessionBytes || !k.bytes.room(n) || k.Full() {
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
	k.sessions[r.session] -= r.units
	k.table.remove(i)
	return r
}
