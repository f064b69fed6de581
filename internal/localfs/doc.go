// Package localfs finds out whether the file system of an open file is on a disk or in the memory
// of this machine. It knows the file systems of Linux.
package localfs
