//go:build !windows

package console

// takesEscapes reports whether a terminal accepts escape sequences. On these systems all do.
func takesEscapes(uintptr) bool { return true }
