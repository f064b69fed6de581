package tftp

import "time"

const (
	// unprovenAge is the age after which an unproven transfer may be replaced if there are too many
	// transfers. A peer that exists answers sooner.
	unprovenAge = time.Second

	// minUnproven is the length below which a list is not searched for entries that are no longer
	// unproven.
	minUnproven = 64
)

// An unprovenList holds the transfers of a shard whose requests may be forged, oldest first, so
// that a flood of forged requests cannot keep clients out for long. An entry becomes invalid when
// its transfer is proven or ends.
type unprovenList struct {
	list []unprovenEntry
	head int // index of the oldest entry; the entries before it are invalid
	full int // length at which the list is searched for invalid entries
}

// An unprovenEntry identifies one use of a session by the time it began, because sessions are
// reused.
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

// oldest returns the transfer that has been unproven for the longest time, or nil if that time is
// shorter than unprovenAge.
func (q *unprovenList) oldest(now time.Time) *session {
	for q.head < len(q.list) && !q.list[q.head].isUnproven() {
		q.head++
	}
	if q.head == len(q.list) || now.Sub(q.list[q.head].began) < unprovenAge {
		return nil
	}
	return q.list[q.head].session
}
