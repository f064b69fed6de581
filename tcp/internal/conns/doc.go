// Package conns implements the accepted connections of package tcp. A program only gets handles of
// them.
//
// A [Group] is the state that the connections of one call of Serve share: clock, timeouts and
// counters. A [Roster] lists the connections that one listening socket accepted. A [Conn] is one
// connection: its descriptor, its state, and the number of calls that use it. Conns are pooled:
// each serves one connection after another.
package conns
