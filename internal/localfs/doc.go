// Package localfs finds out whether the file system of an open file is on a disk of this machine, or
// in its memory. It works only on Linux.
package localfs
