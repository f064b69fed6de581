// Package drive is between a server of package tcp and what serves its connections in
// place of a goroutine for each: package tcp/events.
package drive

import (
	"net"
	"time"

	"github.com/haul-project/haul/tcp/internal/admission"
	"github.com/haul-project/haul/tcp/internal/conns"
)

// A Driver serves connections. Several goroutines may call its methods.
type Driver interface {
	// Check reports invalid settings.
	Check() error

	// NewLoop returns a loop that accepts and serves the connections of a socket. Where
	// there are no loops it returns nil, and each connection has a goroutine, which calls
	// Serve.
	NewLoop(s *Socket) (Loop, error)

	// Serve serves a connection until it ends. nc is h, or the TLS over it.
	Serve(nc net.Conn, h Handle, c *conns.Conn)
}

// A Loop serves all connections of one socket on one goroutine.
type Loop interface {
	// Run serves until the socket is stopped and the last connection has ended. If a
	// handler ends the goroutine, Run continues on a new one.
	Run()

	Wake()      // has it notice that the socket is stopped, or the server ends
	PlaceFree() // has it notice that there is a place for a connection
	Close()     // gives back what a loop has that did not run
}

// A Socket is what a loop has of a listening socket and its server.
type Socket struct {
	FD     int
	Gate   *admission.Gate
	Roster *conns.Roster

	// Stopped reports whether the socket is to accept no more, and until when it still
	// accepts what is in its queue.
	Stopped func() (stopped bool, until time.Time)

	Accepted  func()                                   // called after a connection was accepted
	End       func(err error)                          // called once, when no more are accepted; closes the socket
	Go        func(f func())                           // starts a goroutine that the server waits for
	NewHandle func(c *conns.Conn) Handle               // of a connection, for the program
	Reject    func(c *conns.Conn, h Handle, err error) // counts and reports why a connection is not served
}

// A Handle is what a program has of a connection: a *tcp.Conn.
type Handle interface {
	net.Conn

	// WaitReadable waits until there are bytes to read, or the end.
	WaitReadable() error
}
