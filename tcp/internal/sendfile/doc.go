// Package sendfile moves bytes between descriptors without copying them into this process: from
// files to sockets with sendfile(2), and between two streams through a pipe. Pages of files that
// are in memory are sent with raw system calls, of which Go's scheduler does not know. On systems
// other than Linux, the package only determines what kind of file or connection a value is.
package sendfile
