// Package conns holds the accepted connections of package tcp, below the handle that a program
// gets.
//
// A [Group] is shared by the connections of one call of Serve: it has their clock, timeouts and
// counters. A [Roster] lists the connections that one listening socket accepted. A [Conn] is one of
// them, with its descriptor, its state and the number of calls that use it. It is pooled: its
// memory serves one connection after another.
package conns
