//go:build race

package tftp

// raceEnabled says that the race detector runs, which allocates for itself.
const raceEnabled = true
