// Package tcp is a server for TCP and unix sockets. It accepts connections on all cores, calls a
// plain blocking function for each, enforces limits and timeouts, and shuts down in order.
//
//	s := &tcp.Server{
//		Handle: func(ctx context.Context, c net.Conn) {
//			io.Copy(c, c)
//		},
//	}
//	err := s.ListenAndServe(ctx, ":7")
//
// The connection is closed when the function returns. Cancelling ctx ends the server: it accepts no
// more connections, gives the functions the time [Server.Grace] to return, closes the connections
// that remain then, and returns when the last function has returned.
//
// A connection behaves like any net.Conn: any goroutine may call any method, deadlines apply to
// calls that already wait, and each half can be closed alone. On Linux, the kernel copies the bytes
// of an io.Copy between a connection and a file or another connection. With [Server.TLS],
// connections begin with TLS; with [StartTLS], a handler starts TLS later.
//
// For other servers, such as net/http's, a [Listener] returns connections from Accept: see
// [Server.Listener]. For handlers that never wait, a [Server.Driver] of package events
// (https://pkg.go.dev/github.com/haul-project/haul/tcp/events) costs less than a goroutine for each
// connection.
//
// # Where the speed comes from
//
// For a connection with one request, package net makes about a dozen system calls. On Linux this
// package makes four: accept4, recv, send, close. Options are set once on the listening socket, and
// accepted sockets inherit them. A connection is registered with Go's network poller only when it
// first has to wait, and many never have to. The goroutine that accepts a connection also serves
// it; another goroutine accepts before this one waits. If clients send first, set
// [Options.ClientFirst]: connections are then accepted once their request has arrived.
//
// On other systems, and with the build tag haul_portable, the same types wrap package net.
//
// # Bounds
//
// [Server.MaxConns] and [Server.MaxConnsPerSource] bound the number of connections,
// [Server.MaxHandshakes] bounds the number of TLS handshakes, and the timeouts of a Server bound
// how long they may take. A goroutine serves each connection. At most 1024 idle goroutines are kept
// for the next connections.
//
// # Stability
//
// The package follows the version of the module: before version 1.0 names may change, and
// https://github.com/haul-project/haul/blob/main/CHANGELOG.md lists each change. The page
// https://github.com/haul-project/haul/blob/main/docs/tcp.md explains how a connection is served,
// and how to move a program here from package net or tcpserver.
package tcp
