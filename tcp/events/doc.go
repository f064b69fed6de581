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
// It is for programs that do not wait for anything else before they answer, such as another server,
// a disk, or a lock that is held for long: all connections of a loop would wait meanwhile. Other
// programs need tcp.Server.Handle.
//
// The limits and times of the server, its PROXY headers, Counters, Peers and Halt work the same
// with both. Loops also call the hooks of the server, such as Refused, so these must not wait. With
// TLS, and on systems other than Linux, each connection has a goroutine that calls OnData.
//
// # Stability
//
// The package follows the version of the module
// (https://github.com/haul-project/haul/blob/main/CHANGELOG.md): before version 1.0 names may
// change, and the changelog lists each change.
package events
