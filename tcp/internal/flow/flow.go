// Package flow buffers the bytes of a connection that is served by callbacks: received bytes that
// the handler has not used yet, and written bytes that are not sent yet. It decides when to call
// the handler and when the connection is over. It does no input or output itself: a driver has the
// socket.
//
// While written bytes are unsent, the handler is not called and nothing is received. So a peer that
// does not read its answers cannot make the server store more of them.
package flow

import "errors"

// Bounds of the buffers, in bytes.
const (
	// gather is how many written bytes are collected before they are sent. An answer is rarely
	// longer, so one system call sends it, together with the answers to other requests of the same
	// receive.
	gather = 64 << 10

	// maxScratch is the size of the largest scratch buffer that is kept for the next turn.
	maxScratch = 4 * gather

	// Room returns at least MinRoom and at most maxRoom bytes.
	MinRoom = 4 << 10
	maxRoom = 64 << 10
)

var (
	// ErrHeld says that the handler used none of the held bytes, although they were as many as
	// allowed.
	ErrHeld = errors.New("tcp: a request is longer than Handler.MaxHeld")

	// ErrUnsent says that the handler wrote more bytes than may be kept unsent.
	ErrUnsent = errors.New("tcp: more bytes are unsent than Handler.MaxUnsent allows")

	// ErrClosed says that the handler wrote after it closed the connection.
	ErrClosed = errors.New("tcp: write after Close")
)

// Limits are the largest numbers of bytes that a connection may keep, not counting the bytes of the
// last receive.
type Limits struct {
	Held   int // bytes of an incomplete request
	Unsent int // bytes of answers that the peer has not read
}

// A Driver gives a Flow access to the socket and to the handler of its connection.
type Driver interface {
	// Call calls the handler, and returns how many bytes of data it has used, from 0 to len(data).
	// data is valid until Call returns.
	Call(data []byte) (used int)

	// Send sends as much of b as the socket accepts. If that is not all of b, the socket is full
	// for now. last says that the connection will be closed after b.
	Send(b []byte, last bool) (n int, err error)
}

// A Next says what a connection waits for.
type Next uint8

// The values of Next. Turn and Flush return one of them.
const (
	Idle    Next = iota // waits for bytes, and holds none
	Partial             // holds a part of a request, and waits for the rest
	Blocked             // holds unsent bytes, and waits until the socket has room for them
	Again               // needs another turn now, without waiting
	Over                // waits for nothing: the connection must be closed
)

// A Flow holds the buffers of one connection. The zero value is ready for use.
type Flow struct {
	held   []byte // received bytes that the handler has not used; nil if all bytes are used
	unsent []byte // written bytes that are not sent; during a turn they are in the driver's scratch memory
	failed error  // the error of sending or writing, which ends the connection

	ended  bool // the peer has closed its sending half
	closes bool // the handler has closed the connection
	again  bool // the handler has called Again
	more   bool // the handler must be called again once nothing is unsent
}

// End records that the peer has closed its sending half.
func (f *Flow) End() { f.ended = true }

// Ended reports whether the peer has closed its sending half.
func (f *Flow) Ended() bool { return f.ended }

// Close makes the connection end once all written bytes are sent. The handler is not called again.
func (f *Flow) Close() { f.closes = true }

// Again makes the handler be called again once all written bytes are sent, even if nothing is
// received.
func (f *Flow) Again() { f.again = true }

// Holds reports whether there are received bytes that the handler has not used.
func (f *Flow) Holds() bool { return len(f.held) > 0 }

// Held returns the received bytes that the handler has not used.
func (f *Flow) Held() []byte { return f.held }

// Room returns free memory directly after the held bytes. The caller receives into it, and then
// calls Received.
func (f *Flow) Room() []byte {
	if room := cap(f.held) - len(f.held); room < MinRoom {
		grown := make([]byte, len(f.held), 2*len(f.held)+MinRoom)
		copy(grown, f.held)
		f.held = grown
	}
	return f.held[len(f.held):min(cap(f.held), len(f.held)+maxRoom)]
}

// Received adds the first n bytes of Room to the held bytes.
func (f *Flow) Received(n int) { f.held = f.held[:len(f.held)+n] }

// Hold replaces the held bytes. The handler will be called for them.
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

// Write adds b to the bytes to send. If more than gather bytes are then unsent, it sends as many as
// the socket accepts and keeps the rest. An error ends the connection, because the peer may have
// received a part of b.
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

// flush sends as many of the unsent bytes as the socket accepts.
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

// Turn calls the handler with data: the held bytes, or if no bytes are held, the received ones. It
// repeats that until the handler uses no more bytes, or the socket accepts no more. scratch is
// memory for the handler's writes that all connections of a driver share.
func (f *Flow) Turn(data []byte, scratch *[]byte, d Driver, max Limits) (Next, error) {
	f.unsent = (*scratch)[:0]
	moved := false // the last call used some of data, or was made because the handler had called Again
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

// own copies the unsent bytes out of the scratch memory. If the turn has allocated larger scratch
// memory, own keeps that for the next turns.
func (f *Flow) own(scratch *[]byte) {
	unsent := f.unsent
	if f.unsent = nil; len(unsent) > 0 {
		f.unsent = append([]byte(nil), unsent...)
	}
	if n := cap(unsent); n > cap(*scratch) && n <= maxScratch && len(unsent) == 0 {
		*scratch = unsent[:0]
	}
}

// Flush sends more of the unsent bytes, once a connection that was Blocked has room again.
func (f *Flow) Flush(d Driver) (Next, error) {
	if f.flush(d); len(f.unsent) == 0 {
		f.unsent = nil
	}
	return f.next()
}

// next returns what the connection waits for, and the error that has ended it.
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
