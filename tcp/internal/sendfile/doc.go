// Package sendfile moves bytes between descriptors without a copy in this process: from files to
// sockets by sendfile(2), cached pages without the knowledge of Go's scheduler, and between two
// streams through a pipe. On systems other than Linux it only finds out the kind of a reader.
package sendfile
