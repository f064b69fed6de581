// Package flow has the buffers of a connection that is served by callbacks: bytes that were
// received and not used yet, and bytes that were written and not sent yet. It decides when
// the handler is called, and when the connection is over; a driver has the socket.
//
// While bytes are unsent, the handler is not called and nothing is received, so a peer that
// does not read its answers gets no more of them.
package flow

import "errors"

// Bounds of the buffers, in bytes.
const (
	// gather is how many written bytes are collected before they are sent. A request
	// rarely has more, so its answers, and those of requests that came with it, leave by
	// one system call.
	gather = 64 << 10

	// maxScratch is the largest scratch buffer that is kept for the next turn.
	maxScratch = 4 * gather

	// MinRoom and maxRoom are how much room there is to receive behind held bytes.
	MinRoom = 4 << 10
	maxRoom = 64 << 10
)

var (
	// ErrHeld says that the handler did not use any of as many bytes as may be held.
	ErrHeld = errors.New("tcp: a request is longer than Server.MaxHeld")

	// ErrUnsent says that the handler wrote more than may be unsent.
	ErrUnsent = errors.New("tcp: more bytes are unsent than Server.MaxUnsent allows")

	// ErrClosed says that the handler wrote after it closed the connection.
	ErrClosed = errors.New("tcp: write after Close")
)

// Limits are how many bytes a connection may keep, beside what one receive brings.
type Limits struct {
	Held   int // of a request that is not complete
	Unsent int // of answers that the peer does not read
}

// A Driver has the socket and the handler of the connections that it serves.
type Driver interface {
	// Call calls the handler, and returns how many bytes of data it has used: 0 to
	// len(data). data is valid until it returns.
	Call(data []byte) (used int)

	// Send sends what the socket takes of b: less than all of it means that it takes no
	// more for now. last says that nothing follows.
	Send(b []byte, last bool) (n int, err error)
}

// A Next says what a connection waits for.
type Next uint8

// A connection may wait for these.
const (
	Idle    Next = iota // bytes; it has none
	Partial             // bytes; it holds a part of a request
	Blocked             // the peer, to read what is unsent
	Again               // another turn, without an event
	Over                // nothing; it is to be closed
)

// A Flow is the buffers of one connection. The zero value is ready.
type Flow struct {
	held   []byte // received and not used; nil if there are none
	unsent []byte // written and not sent: the driver's scratch during a turn
	failed error  // of sending or writing, during a turn

	ended  bool // the peer has sent all
	closes bool // the handler has closed the connection
	again  bool // the handler wants to be called again
	more   bool // after a turn that was blocked: another is due
}

// End notes that the peer has sent all.
func (f *Flow) End() { f.ended = true }

// Ended reports whether the peer has sent all.
func (f *Flow) Ended() bool { return f.ended }

// Close has the connection end once all is sent. The handler is not called any more.
func (f *Flow) Close() { f.closes = true }

// Again has the handler called again once all is sent, even if no byte is received.
func (f *Flow) Again() { f.again = true }

// Holds reports whether received bytes are held.
func (f *Flow) Holds() bool { return len(f.held) > 0 }

// Held returns them.
func (f *Flow) Held() []byte { return f.held }

// Room returns room for bytes to be received behind those that are held. Received adds
// them.
func (f *Flow) Room() []byte {
	if room := cap(f.held) - len(f.held); room < MinRoom {
		grown := make([]byte, len(f.held), 2*len(f.held)+MinRoom)
		copy(grown, f.held)
		f.held = grown
	}
	return f.held[len(f.held):min(cap(f.held), len(f.held)+maxRoom)]
}

// Received adds n bytes, which are in Room, to those that are held.
func (f *Flow) Received(n int) { f.held = f.held[:len(f.held)+n] }

// Hold replaces what is held. The handler is called for it.
func (f *Flow) Hold(data []byte) {
	f.hold(data)
	f.more = len(data) > 0
}

func (f *Flow) hold(data []byte) {
	switch {
	case len(data) == 0:
		f.held = nil // so that an idle connection has no buffer
	case cap(f.held) < len(data):
		f.held = append(make([]byte, 0, len(data)+MinRoom), data...)
	default:
		f.held = f.held[:copy(f.held[:cap(f.held)], data)]
	}
}

// Write takes b to be sent. During a turn it sends what there is if it is much, and keeps
// the rest. An error ends the connection, as the peer may have a part of b.
func (f *Flow) Write(b []byte, d Driver, max Limits) (int, error) {
	switch {
	case f.failed != nil:
		return 0, f.failed
	case f.closes:
		return 0, ErrClosed
	case len(f.unsent)+len(b) <= gather:
		f.unsent = append(f.unsent, b...)
		return len(b), nil
	}
	f.flush(d)
	rest := b
	if len(f.unsent) == 0 && f.failed == nil {
		var n int
		n, f.failed = d.Send(b, false)
		rest = b[n:]
	}
	if f.failed == nil && len(f.unsent)+len(rest) > max.Unsent {
		f.failed = ErrUnsent
	}
	if f.failed != nil {
		return len(b) - len(rest), f.failed
	}
	f.unsent = append(f.unsent, rest...)
	return len(b), nil
}

// flush sends what is unsent.
func (f *Flow) flush(d Driver) {
	if len(f.unsent) == 0 || f.failed != nil {
		return
	}
	n, err := d.Send(f.unsent, f.closes)
	if f.failed = err; n == len(f.unsent) {
		f.unsent = f.unsent[:0]
	} else {
		f.unsent = f.unsent[n:]
	}
}

// Turn has the handler use data: what is held, or if nothing is, what was received. It ends
// when the handler uses no more, or the peer takes no more. scratch is memory for what the
// handler writes, which the connections of a driver share.
func (f *Flow) Turn(data []byte, scratch *[]byte, d Driver, max Limits) (Next, error) {
	f.unsent = (*scratch)[:0]
	moved := false // the last call used data, or it was one that the handler had asked for
	for {
		moved, f.again = f.again, false
		used := d.Call(data)
		data = data[used:]
		moved = moved || used > 0
		if f.closes || f.failed != nil || f.again || !moved || len(data) == 0 {
			break
		}
		if len(f.unsent) >= gather {
			if f.flush(d); len(f.unsent) > 0 {
				break
			}
		}
	}
	if f.flush(d); len(f.unsent) > max.Unsent && f.failed == nil {
		f.failed = ErrUnsent
	}
	f.hold(data)
	f.more = f.again || moved && len(data) > 0
	f.own(scratch)
	if !f.more && len(data) >= max.Held && !f.closes && f.failed == nil {
		f.failed = ErrHeld
	}
	return f.next()
}

// own moves what is unsent out of the scratch memory, which the turn may have replaced by a
// larger one.
func (f *Flow) own(scratch *[]byte) {
	unsent := f.unsent
	if f.unsent = nil; len(unsent) > 0 {
		f.unsent = append([]byte(nil), unsent...)
	}
	if n := cap(unsent); n > cap(*scratch) && n <= maxScratch && len(unsent) == 0 {
		*scratch = unsent[:0]
	}
}

// Flush sends more of what is unsent, after a turn that was blocked.
func (f *Flow) Flush(d Driver) (Next, error) {
	if f.flush(d); len(f.unsent) == 0 {
		f.unsent = nil
	}
	return f.next()
}

// next returns what the connection waits for.
func (f *Flow) next() (Next, error) {
	switch {
	case f.failed != nil:
		return Over, f.failed
	case len(f.unsent) > 0:
		return Blocked, nil
	case f.closes:
		return Over, nil
	case f.more:
		return Again, nil
	case f.ended:
		return Over, nil
	case len(f.held) > 0:
		return Partial, nil
	}
	return Idle, nil
}
