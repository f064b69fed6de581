// Package fdline provides a connection between two processes of haul, over which they send each
// other lines of text and open files. It is not available on Windows.
package fdline

const (
	// MaxLine is the longest line, in bytes, including the line feed.
	MaxLine = 64 << 10

	// MaxFiles is how many files a line may carry. The kernel passes at most 253 descriptors at a
	// time.
	MaxFiles = 201
)
