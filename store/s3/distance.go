package s3

import (
	"errors"
	"time"
)

// roundTrip returns the shortest time from a request to its answer, or 0 before the first answer.
func (s *Store) roundTrip() time.Duration { return time.Duration(s.http.trip.Load()) }

// openFiles returns 0: nothing stays open on an S3 server. Requests beyond Config.Conns wait for
// each other.
func openFiles() int { return 0 }

// tooManyOpen reports whether an error says that the server is too busy for the number of requests.
func tooManyOpen(err error) bool {
	r, ok := errors.AsType[*RefusedError](err)
	return ok && hasNoTime(r)
}
