// Package events serves connections by calling a function that never waits.
//
// With a [Handler] as its Driver, a tcp.Server
// (https://pkg.go.dev/github.com/haul-project/haul/tcp) has no goroutine for each
// connection: on Linux a loop for each listening socket serves all connections of that
// socket, and an idle connection takes less than a kilobyte.
//
//	s := &tcp.Server{Driver: &events.Handler{
//		OnData: func(c *events.Conn, data []byte) int {
//			c.Write(data)
//			return len(data)
//		},
//	}}
//	err := s.ListenAndServe(ctx, ":7")
//
// It is for programs whose OnData never waits: for another server, a disk, or a lock that is held
// for long. While it waited, all connections of the loop would wait too. Programs that have to wait
// need tcp.Server.Handle.
//
// The server's limits and timeouts, PROXY headers, Counters, Peers and Halt work the same with
// Driver and with Handle. A loop also calls the functions of the server, such as Refused, so these
// must not wait either. With TLS, and on systems other than Linux, each connection has a goroutine
// that calls OnData.
//
// # Stability
//
// The package follows the version of the module
// (https://github.com/haul-project/haul/blob/main/CHANGELOG.md): before version 1.0 names may
// change, and the changelog lists each change.
package events
