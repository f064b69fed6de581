//go:build !race

package pipeline

// raceEnabled says whether the race detector runs, which makes the tables slow.
const raceEnabled = false
