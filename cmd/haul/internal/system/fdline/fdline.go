// Package fdline is a line between two processes of haul, on which they send each other lines
// of text and open files. Windows has no such thing.
package fdline

const (
	// MaxLine is how long a line may be, in bytes, with its end.
	MaxLine = 64 << 10

	// MaxFiles is how many files may come with a line. The kernel passes 253 descriptors at
	// a time.
	MaxFiles = 201
)
