// Package sendfile moves bytes between descriptors without a copy in this process. It moves them
// from files to sockets with sendfile(2), and between two streams through a pipe. It sends cached
// pages of files without the knowledge of Go's scheduler. On systems other than Linux it only
// determines the kind of a reader.
package sendfile
