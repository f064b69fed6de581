package tftp

import "time"

const (
	// unprovenAge is how long an unproven transfer keeps its place when there are too many
	// transfers. A peer that exists answers sooner.
	unprovenAge = time.Second

	// minUnproven is the shortest length at which a list is searched for entries to drop.
	minUnproven = 64
)

// An unprovenList holds the transfers of a shard whose requests may be forged, oldest first, so
// that a flood of forged requests cannot keep clients out for long.
type unprovenList struct {
	list []unprovenEntry
	head int // entries before this index are no longer valid
	full int // length at which the list is searched for invalid entries
}

// An unprovenEntry identifies one use of a session, because sessions are reused.
type unprovenEntry struct {
	*session
	began time.Time
}

func (s unprovenEntry) isUnproven() bool {
	return s.unproven && s.state != ended && s.session.began.Equal(s.began)
}

// add appends a new session. The list has at most twice as many entries as were valid when it was
// last searched, or minUnproven entries if that is more, even if an entry at its head stays for long.
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

// oldest returns the transfer that has been unproven for longest, or nil if that is less than
// unprovenAge.
func (q *unprovenList) oldest(now time.Time) *session {
	for q.head < len(q.list) && !q.list[q.head].isUnproven() {
		q.head++
	}
	if q.head == len(q.list) || now.Sub(q.list[q.head].began) < unprovenAge {
		return nil
	}
	return q.list[q.head].session
}
