//go:build race

package store_test

// With the race detector a sync.Pool forgets at random, and so allocates.
const raceEnabled = true
