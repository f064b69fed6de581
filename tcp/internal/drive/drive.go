// Package drive connects a server of package tcp with package tcp/events, which serves connections
// without a goroutine for each.
package drive

import (
	"net"
	"time"

	"github.com/haul-project/haul/tcp/internal/admission"
	"github.com/haul-project/haul/tcp/internal/conns"
)

// A Driver serves connections. Its methods may be called concurrently.
type Driver interface {
	// Check returns an error for invalid settings.
	Check() error

	// NewLoop returns a loop that accepts and serves the connections of a socket. On systems
	// without loops it returns nil; each connection then has a goroutine, which calls Serve.
	NewLoop(s *Socket) (Loop, error)

	// Serve serves a connection until it ends. nc is h, or the TLS over it.
	Serve(nc net.Conn, h Handle, c *conns.Conn)
}

// A Loop serves all connections of one socket on one goroutine.
type Loop interface {
	// Run serves until the socket is stopped and the last connection has ended. If a
	// handler ends the goroutine, Run continues on a new one.
	Run()

	Wake()      // makes it notice that the socket is stopped or the server is ending
	PlaceFree() // makes it notice that there is a place for a connection
	Close()     // releases the resources of a loop that did not run
}

// A Socket is a listening socket and its server, as a loop uses them.
type Socket struct {
	FD     int
	Gate   *admission.Gate
	Roster *conns.Roster

	// Stopped reports whether the socket must stop accepting, and until when it still accepts
	// queued connections.
	Stopped func() (stopped bool, until time.Time)

	Accepted  func()                                   // called after a connection was accepted
	End       func(err error)                          // called once, when no more are accepted; closes the socket
	Go        func(f func())                           // starts a goroutine that the server waits for
	NewHandle func(c *conns.Conn) Handle               // returns the program's handle of a connection
	Reject    func(c *conns.Conn, h Handle, err error) // counts and reports why a connection is not served
}

// A Handle is the program's handle of a connection: a *tcp.Conn.
type Handle interface {
	net.Conn

	// WaitReadable waits until there are bytes to read, or the end.
	WaitReadable() error
}
