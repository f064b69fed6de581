package tftp

import "time"

const (
	// unprovenAge is how long a transfer that nothing proves keeps its place
	// when there are too many: a peer that exists answers sooner.
	unprovenAge = time.Second

	// minUnproven is the least length at which a list is searched for transfers to drop.
	minUnproven = 64
)

// An unprovenList has the transfers of a shard whose requests may be forged, oldest first, so
// that a flood of forged requests keeps no client out for long.
type unprovenList struct {
	list []unprovenEntry
	head int // entries before it are over
	full int // the length at which to search all of it
}

// An unprovenEntry is a session as it was: sessions are used again.
type unprovenEntry struct {
	*session
	began time.Time
}

func (s unprovenEntry) isUnproven() bool {
	return s.unproven && s.state != ended && s.session.began.Equal(s.began)
}

// add puts a new session at the end. The list is never longer than twice what
// stands on it, even if one at its head stays for long.
func (q *unprovenList) add(s *session) {
	if len(q.list) >= max(q.full, minUnproven) {
		kept := q.list[:0]
		for _, old := range q.list[q.head:] {
			if old.isUnproven() {
				kept = append(kept, old)
			}
		}
		clear(q.list[len(kept):])
		q.list, q.head, q.full = kept, 0, 2*len(kept)
	}
	q.list = append(q.list, unprovenEntry{s, s.began})
}

// oldest returns the transfer that has waited longest for a proof, nil if none
// has waited long.
func (q *unprovenList) oldest(now time.Time) *session {
	for q.head < len(q.list) && !q.list[q.head].isUnproven() {
		q.head++
	}
	if q.head == len(q.list) || now.Sub(q.list[q.head].began) < unprovenAge {
		return nil
	}
	return q.list[q.head].session
}
