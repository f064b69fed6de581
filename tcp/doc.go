// Package tcp serves connections. It accepts them on all cores, serves each by a plain
// blocking function, keeps limits and timeouts, and shuts down in order.
//
//	s := &tcp.Server{
//		Handle: func(ctx context.Context, c net.Conn) {
//			io.Copy(c, c)
//		},
//	}
//	err := s.ListenAndServe(ctx, ":7")
//
// The connection is closed when the function returns. Cancelling ctx ends the server: it
// accepts no more, gives the functions [Server.Grace] to return, closes the connections
// that are left, and returns after the last function has.
//
// A connection keeps all promises of a net.Conn: any goroutine may call any method,
// deadlines apply to calls that wait already, and each half can be closed alone. On Linux
// io.Copy between a connection and a file, or another connection, leaves the bytes to the
// kernel. [Server.TLS] starts TLS at the first byte, [StartTLS] at a later one.
//
// For other servers, such as net/http's, [Server.Listener] is the accept side
// alone. For handlers that never wait, a [Server.Driver] of package events
// (https://pkg.go.dev/github.com/haul-project/haul/tcp/events) costs less than a goroutine
// for each connection.
//
// # Where the speed comes from
//
// Package net makes some dozen system calls for a connection of one request. On
// Linux this one makes four: accept4, recv, send, close. Options are set once on the
// listening socket, and accepted sockets inherit them. A connection is registered with
// Go's network poller when it waits for the first time, and many never wait. The goroutine
// that accepts a connection also serves it, and hands accepting on before it waits. If
// clients send first, set [Options.ClientFirst]: connections are then accepted when their
// request is there.
//
// On other systems, and with the build tag haul_portable, the same types wrap package net.
//
// # Bounds
//
// [Server.MaxConns] and [Server.MaxConnsPerSource] bound the connections,
// [Server.MaxHandshakes] the TLS handshakes, and the timeouts of a Server how long each
// may take. A goroutine serves each connection. Idle goroutines are kept for the next
// connections, up to 1024 in all.
//
// # Stability
//
// The package follows the version of the module: before version 1.0 names may change, and
// https://github.com/haul-project/haul/blob/main/CHANGELOG.md lists each change. How a
// connection is served, and how to move a program here from package net or tcpserver:
// https://github.com/haul-project/haul/blob/main/docs/tcp.md
package tcp
