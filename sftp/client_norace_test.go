//go:build !race

package sftp

// raceEnabled is for tests that the race detector disturbs.
const raceEnabled = false
