// Package flow has the buffers of a connection that is served by callbacks: bytes that were
// received and not used yet, and bytes that were written and not sent yet. It decides when to call
// the handler and when the connection is over. A driver has the socket.
//
// While bytes are unsent, the handler is not called and nothing is received, so a peer that does
// not read its answers gets no more of them.
package flow

import "errors"

// Bounds of the buffers, in bytes.
const (
	// gather is how many written bytes are collected before they are sent. A request's answer is
	// rarely longer, so it leaves in one system call, together with the answers to requests that
	// came with it.
	gather = 64 << 10

	// maxScratch is the largest scratch buffer that is kept for the next turn.
	maxScratch = 4 * gather

	// MinRoom and maxRoom bound the room for receiving after the held bytes.
	MinRoom = 4 << 10
	maxRoom = 64 << 10
)

var (
	// ErrHeld says that as many bytes were held as allowed and the handler used none of them.
	ErrHeld = errors.New("tcp: a request is longer than Handler.MaxHeld")

	// ErrUnsent says that the handler wrote more bytes than may be unsent.
	ErrUnsent = errors.New("tcp: more bytes are unsent than Handler.MaxUnsent allows")

	// ErrClosed says that the handler wrote after it closed the connection.
	ErrClosed = errors.New("tcp: write after Close")
)

// Limits are how many bytes a connection may keep, in addition to the bytes of one receive.
type Limits struct {
	Held   int // bytes of an incomplete request
	Unsent int // bytes of answers that the peer does not read
}

// A Driver has the socket and the handler of the connections that it serves.
type Driver interface {
	// Call calls the handler, and returns how many bytes of data it has used: 0 to
	// len(data). data is valid until it returns.
	Call(data []byte) (used int)

	// Send sends as much of b as the socket accepts; less than all of it means that the socket is
	// full for now. last says that nothing follows.
	Send(b []byte, last bool) (n int, err error)
}

// A Next says what a connection waits for.
type Next uint8

// A connection waits for one of these.
const (
	Idle    Next = iota // bytes; none are held
	Partial             // a part of a request is held; more bytes are needed
	Blocked             // the peer must read unsent bytes
	Again               // another turn, without an event
	Over                // nothing; the connection must be closed
)

// A Flow is the buffers of one connection. The zero value is ready.
type Flow struct {
	held   []byte // received and not used; nil if all bytes are used
	unsent []byte // written and not sent; uses the driver's scratch memory during a turn
	failed error  // error of sending or writing during a turn

	ended  bool // the peer has ended sending
	closes bool // the handler has closed the connection
	again  bool // the handler wants to be called again
	more   bool // after a turn that was blocked, another one is due
}

// End records that the peer has ended sending.
func (f *Flow) End() { f.ended = true }

// Ended reports whether the peer has ended sending.
func (f *Flow) Ended() bool { return f.ended }

// Close ends the connection once everything is sent. The handler is not called any more.
func (f *Flow) Close() { f.closes = true }

// Again makes the handler be called again once everything is sent, even if no byte is received.
func (f *Flow) Again() { f.again = true }

// Holds reports whether received bytes are held.
func (f *Flow) Holds() bool { return len(f.held) > 0 }

// Held returns the held bytes.
func (f *Flow) Held() []byte { return f.held }

// Room returns memory for bytes to be received after the held ones. Received adds them.
func (f *Flow) Room() []byte {
	if room := cap(f.held) - len(f.held); room < MinRoom {
		grown := make([]byte, len(f.held), 2*len(f.held)+MinRoom)
		copy(grown, f.held)
		f.held = grown
	}
	return f.held[len(f.held):min(cap(f.held), len(f.held)+maxRoom)]
}

// Received adds n bytes of Room to the held ones.
func (f *Flow) Received(n int) { f.held = f.held[:len(f.held)+n] }

// Hold replaces the held bytes. The handler is called for them.
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

// Write adds b to the bytes to send. During a turn it sends them at once if they are many, and
// keeps the rest. An error ends the connection, because the peer may have received a part of b.
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

// flush sends unsent bytes.
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

// Turn lets the handler use data: the held bytes, or the received ones if no bytes are held. It ends
// when the handler uses no more, or the peer accepts no more. scratch is memory for the handler's
// writes that all connections of a driver share.
func (f *Flow) Turn(data []byte, scratch *[]byte, d Driver, max Limits) (Next, error) {
	f.unsent = (*scratch)[:0]
	moved := false // the last call used data, or the handler had asked for it
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

// own copies unsent bytes out of the scratch memory, which the turn may have replaced with larger
// memory.
func (f *Flow) own(scratch *[]byte) {
	unsent := f.unsent
	if f.unsent = nil; len(unsent) > 0 {
		f.unsent = append([]byte(nil), unsent...)
	}
	if n := cap(unsent); n > cap(*scratch) && n <= maxScratch && len(unsent) == 0 {
		*scratch = unsent[:0]
	}
}

// Flush sends more of the unsent bytes after a turn that was blocked.
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
