// Package rawsock has the system calls of package tcp's fast path: the calls for a connection, the
// filter of a socket that is about to close, and an epoll. It exists on Linux only.
package rawsock
