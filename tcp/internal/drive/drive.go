// Package drive defines the interfaces between a server of package tcp and package tcp/events, which
// serves connections without a goroutine for each.
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
	// without loops it returns nil; the server then calls Serve for each connection, on a
	// goroutine.
	NewLoop(s *Socket) (Loop, error)

	// Serve serves a connection until it ends. nc is h itself, or the TLS connection that uses h.
	Serve(nc net.Conn, h Handle, c *conns.Conn)
}

// A Loop serves all connections of one socket on one goroutine.
type Loop interface {
	// Run serves connections until the socket is stopped and the last connection has ended. If a
	// handler ends the goroutine (runtime.Goexit), Run continues on a new one.
	Run()

	Wake()      // makes the loop notice that the socket is stopped or the server is ending
	PlaceFree() // makes the loop notice that there is a place for a connection
	Close()     // releases the resources of a loop whose Run was never called
}

// A Socket describes a listening socket and its server to a loop.
type Socket struct {
	FD     int
	Gate   *admission.Gate
	Roster *conns.Roster

	// Stopped reports whether the socket must stop accepting, and until when it still accepts
	// queued connections.
	Stopped func() (stopped bool, until time.Time)

	Accepted func() // the loop calls Accepted after each connection that it has accepted
	// End closes the socket. The loop calls End once, when the loop will accept no more connections.
	End func(err error)
	// Go calls f on a new goroutine. The server does not return before f has returned.
	Go        func(f func())
	NewHandle func(c *conns.Conn) Handle               // creates the program's handle of a connection
	Reject    func(c *conns.Conn, h Handle, err error) // counts and reports why a connection is not served
}

// A Handle is the program's handle of a connection: a *tcp.Conn.
type Handle interface {
	net.Conn

	// WaitReadable waits until there are bytes to read, or the connection ends.
	WaitReadable() error
}
