// Package mux sends the requests of an SFTP client to the server, over as many sessions and
// connections as improve the throughput, and returns the answers. A session is an SSH channel on
// which the server speaks SFTP.
//
// A [Call] is a request without file data. A [File] is open in one session or in several.
// [File.Fetch], [File.Fill], [ReadAhead] and [WriteBehind] move its data, each with a plan of
// package pipeline.
//
// # Ownership
//
// The loss of a session changes all parts of the mux, so one lock guards the state of all of them:
// mu of the core, which is not exported. Each part has a file, and uses only the parts above it in
// this list:
//
//	core        settings, the lock, and the error that ended the mux
//	session     one SFTP session, its two goroutines, and its connection
//	table       the requests that wait for an answer
//	pool        the connections and sessions, and how many are worth having
//	opener      opens and removes connections and sessions
//	calls       requests without data
//	handleSet   the sessions in which one file is open
//	transfers   the ranges of files that are being moved, and their turns
//	Mux         connects the parts: it handles the events of sessions
//	File        a file, and the types that read and write it
//
// Exported functions take the lock, and so do functions whose comments say so. All others run under
// it. docs/decisions/042-who-owns-what-in-a-multiplexed-client.md explains why.
package mux
