// Package rawsock makes the system calls of package tcp's fast path: those for a connection, the
// filter for a socket that is about to be closed, and an epoll. It exists on Linux only.
package rawsock
