package events

import (
	"net"

	"github.com/haul-project/haul/tcp/internal/conns"
	"github.com/haul-project/haul/tcp/internal/drive"
	"github.com/haul-project/haul/tcp/internal/flow"
)

// A Conn is a connection that a [Handler] serves. Its methods never wait. They may be called only
// by the handler, while OnData or OnEnd runs for this connection.
type Conn struct {
	// State is for the program's own data about the connection. The package does not use it.
	State any

	flow flow.Flow
	d    flow.Driver
	max  *flow.Limits
	c    *conns.Conn
	h    drive.Handle                   // the program's handle; in a loop, nil until the method handle is called
	make func(*conns.Conn) drive.Handle // creates h, at the first call of handle
	loopState
}

// Write sends b when the call of OnData returns, or earlier. Bytes for which the client has no room
// are kept and sent later. b may be reused at once. While bytes are kept, OnData is not called and
// nothing is received. An error ends the connection.
func (e *Conn) Write(b []byte) (int, error) { return e.flow.Write(b, e.d, *e.max) }

// Close closes the connection once all written bytes are sent. OnData is not called for it again.
func (e *Conn) Close() { e.flow.Close() }

// Again makes OnData be called again once all written bytes are sent, even if no more bytes arrive.
// A long answer can thus be written in parts, each when the client has room for it.
func (e *Conn) Again() { e.flow.Again() }

// Ended reports whether the client has closed its sending half. OnData is then called a last time,
// and again while it uses data or calls Again. Then the connection is closed.
func (e *Conn) Ended() bool { return e.flow.Ended() }

// Draining reports whether the server is ending. A connection of a loop is then closed once OnData
// has used all bytes and its answer is sent. A connection with its own goroutine is closed when it
// would have to wait for more bytes. OnData may call Close to end the connection of a client that
// sends without a pause.
func (e *Conn) Draining() bool { return e.c.Draining() }

// RemoteAddr returns the address of the client: a *net.TCPAddr or *net.UnixAddr. Behind a trusted
// proxy it is the address of the proxy's client.
func (e *Conn) RemoteAddr() net.Addr { return e.handle().RemoteAddr() }

// LocalAddr returns the address that the client connected to.
func (e *Conn) LocalAddr() net.Addr { return e.handle().LocalAddr() }

// handle returns the program's handle of the connection. It creates the handle at the first call.
func (e *Conn) handle() drive.Handle {
	if e.h == nil {
		e.h = e.make(e.c)
	}
	return e.h
}
