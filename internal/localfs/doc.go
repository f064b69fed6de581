// Package localfs finds out whether an open file is on a file system that keeps it on a disk
// of this machine, or in its memory. It knows those of Linux.
package localfs
