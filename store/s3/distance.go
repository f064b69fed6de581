package s3

import (
	"errors"
	"time"
)

// RoundTrip returns the shortest time that an answer has taken from the request on; 0 before
// the first.
func (s *Store) RoundTrip() time.Duration { return time.Duration(s.http.trip.Load()) }

// OpenFiles returns 0: a server of S3 has nothing open. Requests that are more than
// Config.Conns wait for each other.
func (*Store) OpenFiles() int { return 0 }

// TooManyOpen reports whether an error says that the server has no time for so many requests.
func (*Store) TooManyOpen(err error) bool {
	r, ok := errors.AsType[*RefusedError](err)
	return ok && hasNoTime(r)
}
