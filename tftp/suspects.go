package tftp

import "time"

const (
	// suspectAge is how long a transfer that nothing proves keeps its place
	// when there are too many: a peer that exists answers sooner.
	suspectAge = time.Second

	// minSuspects is the least length at which a list is looked through.
	minSuspects = 64
)

// suspects lists the transfers of a shard that may be forged, oldest first, so
// that a flood of forged requests keeps no client out for long.
type suspects struct {
	list []suspect
	head int // what is before it is over
	full int // length at which to look through all of it
}

// A suspect is a session as it was: sessions are used again.
type suspect struct {
	*session
	began time.Time
}

func (s suspect) isUnproven() bool {
	return s.unproven && s.state != ended && s.session.began.Equal(s.began)
}

// add puts a new session at the end. The list is never longer than twice what
// stands on it, even if one at its head stays for long.
func (q *suspects) add(s *session) {
	if len(q.list) >= max(q.full, minSuspects) {
		kept := q.list[:0]
		for _, old := range q.list[q.head:] {
			if old.isUnproven() {
				kept = append(kept, old)
			}
		}
		clear(q.list[len(kept):])
		q.list, q.head, q.full = kept, 0, 2*len(kept)
	}
	q.list = append(q.list, suspect{s, s.began})
}

// oldest returns the transfer that has waited longest for a proof, nil if none
// has waited long.
func (q *suspects) oldest(now time.Time) *session {
	for q.head < len(q.list) && !q.list[q.head].isUnproven() {
		q.head++
	}
	if q.head == len(q.list) || now.Sub(q.list[q.head].began) < suspectAge {
		return nil
	}
	return q.list[q.head].session
}
