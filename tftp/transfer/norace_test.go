//go:build !race

package transfer

// raceEnabled says whether the race detector runs, which makes the tables slow.
const raceEnabled = false
