//go:build race

package pipeline

// raceEnabled says that the race detector runs, which makes the tables slow.
const raceEnabled = true
