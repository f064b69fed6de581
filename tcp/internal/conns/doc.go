// Package conns has the accepted connections of package tcp, below the handle that a
// program gets.
//
// A [Group] is what the connections of one call of Serve share: their clock, their
// timeouts, their counters. A [Roster] lists the connections that one listening socket
// accepted. A [Conn] is one of them: its descriptor, what it is doing, and how many calls
// use it. It is pooled: its memory serves one connection after another.
package conns
