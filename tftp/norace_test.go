//go:build !race

package tftp

// raceEnabled says whether the race detector runs, which allocates for itself.
const raceEnabled = false
