// Package sendfile moves bytes between descriptors without a copy in this process: from files
// to sockets by sendfile(2), cached pages without the knowledge of Go's scheduler, and between
// two streams by a pipe. On systems other than Linux it only finds out what a reader is.
package sendfile
