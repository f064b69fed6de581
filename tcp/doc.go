// Package tcp serves connections. It accepts them on all cores, serves each with a plain blocking
// function, enforces limits and timeouts, and shuts down in order.
//
//	s := &tcp.Server{
//		Handle: func(ctx context.Context, c net.Conn) {
//			io.Copy(c, c)
//		},
//	}
//	err := s.ListenAndServe(ctx, ":7")
//
// The connection is closed when the function returns. Cancelling ctx ends the server: it accepts no
// more connections, gives the functions [Server.Grace] to return, closes the remaining connections,
// and returns after the last function has.
//
// A connection has all properties of a net.Conn: any goroutine may call any method, deadlines apply
// to calls that already wait, and each half can be closed alone. On Linux, io.Copy between a
// connection and a file, or another connection, lets the kernel copy the bytes. [Server.TLS] starts
// TLS at the first byte, [StartTLS] at a later one.
//
// For other servers, such as net/http's, [Server.Listener] only accepts connections. For handlers
// that never wait, a [Server.Driver] of package events
// (https://pkg.go.dev/github.com/haul-project/haul/tcp/events) costs less than a goroutine for each
// connection.
//
// # Where the speed comes from
//
// Package net makes about a dozen system calls for a connection of one request. On Linux this
// package makes four: accept4, recv, send, close. Options are set once on the listening socket, and
// accepted sockets inherit them. A connection is registered with Go's network poller only when it
// first waits, and many never wait. The goroutine that accepts a connection also serves it, and
// passes accepting on before it waits. If clients send first, set [Options.ClientFirst]:
// connections are then accepted once their request has arrived.
//
// On other systems, and with the build tag haul_portable, the same types wrap package net.
//
// # Bounds
//
// [Server.MaxConns] and [Server.MaxConnsPerSource] bound the connections, [Server.MaxHandshakes]
// bounds the TLS handshakes, and the timeouts of a Server bound their time. A goroutine serves each
// connection. Idle goroutines are kept for the next connections, up to 1024 in all.
//
// # Stability
//
// The package follows the version of the module: before version 1.0 names may change, and
// https://github.com/haul-project/haul/blob/main/CHANGELOG.md lists each change. The page
// https://github.com/haul-project/haul/blob/main/docs/tcp.md explains how a connection is served,
// and how to move a program here from package net or tcpserver.
package tcp
