//go:build race

// Package race reports whether the race detector runs, for tests that it makes slow,
// or whose allocations it adds to.
package race

// Enabled reports whether the race detector runs.
const Enabled = true
