// Package mux sends the requests of an SFTP client to the server, over as many sessions of as
// many connections as help, and hands the answers back. A session is an SSH channel on which
// the server speaks SFTP.
//
// A [Call] is a request without data of a file. A [File] is open in one session or in several.
// [File.Fetch], [File.Fill], [ReadAhead] and [WriteBehind] move its data, each with a plan of
// package pipeline.
//
// # Who owns what
//
// One lock, mu of the core, guards the state of all parts, because the loss of a session
// changes all of them. It is never exported. Each part has a file, and knows only the parts
// above it in this list:
//
//	core        settings, the lock, and why the mux has ended
//	session     one SFTP session and its two goroutines; the connection it is on
//	table       the requests that are to be answered
//	pool        connections and sessions, and how many are worth having
//	opener      opens them, and takes them away
//	calls       requests without data
//	handleSet   the sessions in which one file is open
//	transfers   ranges of files that are moved, and their turns
//	Mux         ties them together: what happens in a session goes to it
//	File        and what reads and writes it
//
// Exported functions take the lock, and so do those that say so. All others run under it.
// docs/decisions/042-who-owns-what-in-a-multiplexed-client.md has the reasons.
package mux
