// Package deadline represents deadlines as numbers that can be stored atomically: nanoseconds of
// Unix time, or 0 for no deadline.
package deadline

import (
	"sync/atomic"
	"time"
)

// FarAway is the latest deadline that can be represented.
const FarAway = 1<<63 - 1

// Nanoseconds returns t as a number. The zero time becomes 0, and times out of range become 1 or
// FarAway.
func Nanoseconds(t time.Time) int64 {
	switch {
	case t.IsZero():
		return 0
	case t.Before(time.Unix(0, 1)):
		return 1 // it does not matter which time in the past it is
	case t.Before(time.Unix(0, FarAway)):
		return t.UnixNano()
	}
	return FarAway
}

// IsPast reports whether a deadline is set and has passed.
func IsPast(by *atomic.Int64) bool {
	t := by.Load()
	return t != 0 && time.Now().UnixNano() >= t
}
