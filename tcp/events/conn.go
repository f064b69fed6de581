package events

import (
	"net"

	"github.com/haul-project/haul/tcp/internal/conns"
	"github.com/haul-project/haul/tcp/internal/drive"
	"github.com/haul-project/haul/tcp/internal/flow"
)

// A Conn is a connection that a [Handler] serves. Its methods never wait. They may be
// called during a call of OnData or OnEnd for this connection, and at no other time.
type Conn struct {
	// State belongs to the program, for its own data about the connection.
	State any

	flow flow.Flow
	d    flow.Driver
	max  *flow.Limits
	c    *conns.Conn
	h    drive.Handle                   // in a loop, nil until needed
	make func(*conns.Conn) drive.Handle // makes h
	loopState
}

// Write sends b when the call of OnData returns, or earlier, and keeps the bytes for which the
// client has no room. b may be reused at once. While bytes are kept, OnData is not called and
// nothing is received. An error ends the connection.
func (e *Conn) Write(b []byte) (int, error) { return e.flow.Write(b, e.d, *e.max) }

// Close ends the connection once everything written is sent. OnData is not called for it any more.
func (e *Conn) Close() { e.flow.Close() }

// Again makes OnData be called again once everything written is sent, even if no more bytes arrive.
// A long answer can thus be written in parts for which the client has room.
func (e *Conn) Again() { e.flow.Again() }

// Ended reports whether the client has ended sending. OnData is then called once more, or as long
// as it uses data or calls Again; then the connection ends.
func (e *Conn) Ended() bool { return e.flow.Ended() }

// Draining reports whether the server is ending. A connection that holds no bytes is then closed
// after OnData has returned and its answer is sent; one with its own goroutine is closed when no
// more bytes have arrived. OnData may call Close to end a client that sends without a pause.
func (e *Conn) Draining() bool { return e.c.Draining() }

// RemoteAddr returns the address of the client: a *net.TCPAddr or *net.UnixAddr. Behind a trusted
// proxy it is the address of the proxy's client.
func (e *Conn) RemoteAddr() net.Addr { return e.handle().RemoteAddr() }

// LocalAddr returns the address that the client connected to.
func (e *Conn) LocalAddr() net.Addr { return e.handle().LocalAddr() }

// handle returns a handle for the connection, and makes it at the first call.
func (e *Conn) handle() drive.Handle {
	if e.h == nil {
		e.h = e.make(e.c)
	}
	return e.h
}
