// Package fdline provides a line: a connection between two processes of haul, over which they send
// each other lines of text together with open files. It is not available on Windows.
package fdline

const (
	// MaxLine is the longest line, in bytes, including the line feed.
	MaxLine = 64 << 10

	// MaxFiles is the maximum number of files that can be sent with one line of text. The kernel
	// passes at most 253 descriptors at a time.
	MaxFiles = 201
)
