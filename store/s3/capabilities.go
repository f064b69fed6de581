package s3

import (
	"errors"
	"time"

	"github.com/haul-project/haul/store"
)

// Capabilities returns the capabilities of S3. Among others: a directory exists as soon as it
// contains a file, the time of a file is the time of its upload, and a listing describes a thousand
// files in one request.
func (s *Store) Capabilities() store.Capabilities {
	return store.Capabilities{
		Features:   store.Features{OwnTimes: true, ImpliedDirs: true, CheapListings: true, NoModes: true},
		RemoveAll:  s.removeTree,
		OpenListed: s.openListed,
		Clone:      clone,
		Match:      match,
		Distance:   &store.Distance{RoundTrip: s.roundTrip, OpenFiles: openFiles, TooManyOpen: tooManyOpen},
	}
}

// roundTrip returns the shortest time from a request to its answer, or 0 before the first answer.
func (s *Store) roundTrip() time.Duration { return time.Duration(s.http.trip.Load()) }

// openFiles returns 0, because nothing stays open on an S3 server. Requests beyond Config.Conns
// wait for earlier ones.
func openFiles() int { return 0 }

// tooManyOpen reports whether an error says that the server receives too many requests at a time.
func tooManyOpen(err error) bool {
	r, ok := errors.AsType[*RefusedError](err)
	return ok && hasNoTime(r)
}
