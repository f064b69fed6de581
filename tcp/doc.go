// Package tcp serves connections: it accepts them on all cores, has a plain
// blocking function serve each, keeps limits and times, and comes to an orderly
// end.
//
//	s := &tcp.Server{
//		Handle: func(ctx context.Context, c net.Conn) {
//			io.Copy(c, c)
//		},
//	}
//	err := s.ListenAndServe(ctx, ":7")
//
// The connection is closed when the function returns. Cancelling ctx ends the
// server: it accepts no more, gives the functions [Server.Grace] to return, then
// closes what is left, and returns when the last of them has.
//
// A connection is a net.Conn with all that package net promises: any goroutine may
// call any method, deadlines hold for calls that wait already, and each half can
// be closed alone. io.Copy between a connection and a file, or another
// connection, leaves the bytes to the kernel. [Server.TLS] has TLS spoken from the
// first byte, [StartTLS] from a later one.
//
// For other servers, such as net/http's, [Server.Listener] is the accept side
// alone.
//
// # Where the speed comes from
//
// Package net makes some dozen system calls for a connection of one request. On
// Linux this one makes four: accept4, recv, send, close. Options are set once on the
// listening socket, and the accepted ones inherit them. Go's network poller hears of a
// connection when it has to wait for the first time, and many never have to. The
// goroutine that accepts serves what it accepted at once, and hands accepting on when
// it has to wait. So that clients who speak first are accepted when their request is
// there, set [Options.ClientFirst].
//
// On other systems, and with the build tag haul_portable, the same program runs on
// package net.
//
// # Bounds
//
// [Server.MaxConns] and [Server.MaxConnsPerSource] bound the connections,
// [Server.MaxHandshakes] those in a TLS handshake, and the times of a Server what
// each may take. A goroutine serves each connection; those that are idle are kept
// for the next, up to 1024 in all.
package tcp
