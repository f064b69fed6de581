package tftp

import "time"

// timers is a heap of sessions, ordered by the time of their next check. That time may be earlier
// than the session's deadline, but never later. Every packet moves a deadline to a later time. The
// new deadline is then only recorded, and the session moves within the heap once the old deadline
// has passed.
//
// With thousands of transfers, each session is due once per round trip, and few are in the
// processor's cache. So the heap itself holds the times, with the four children of an entry side by
// side, and no session's memory is read before the session is due.
type timers struct {
	heap []wake
	base time.Time // the times in the heap count from base
}

// A wake is the time at which to check a session.
type wake struct {
	at      time.Duration // time of the check, since base; the heap is ordered by it
	due     time.Duration // the deadline, since base; never earlier than the field at
	session *session
}

const children = 4 // the number of children of each entry in the heap

// set ensures that s is checked at the given time or earlier. The zero time changes nothing.
func (t *timers) set(s *session, at time.Time) {
	if at.IsZero() {
		return
	}
	if t.base.IsZero() {
		t.base = at
	}
	due := at.Sub(t.base)
	w := wake{due, due, s}
	switch {
	case s.timer == 0:
		t.heap = append(t.heap, w)
		t.up(len(t.heap)-1, w)
	case due < t.heap[s.timer-1].at:
		t.up(s.timer-1, w)
	default:
		t.heap[s.timer-1].due = due
	}
}

// next returns the time at which pop must be called, or the zero time if no session waits.
func (t *timers) next() time.Time {
	if len(t.heap) == 0 {
		return time.Time{}
	}
	return t.base.Add(t.heap[0].at)
}

// pop removes and returns a session whose deadline has passed, or nil if no such session is left.
func (t *timers) pop(now time.Time) *session {
	since := now.Sub(t.base)
	for len(t.heap) > 0 && t.heap[0].at <= since {
		w := t.heap[0]
		if w.due <= since {
			t.remove(w.session)
			return w.session
		}
		w.at = w.due
		t.put(t.down(0, w), w)
	}
	return nil
}

// remove removes s from the heap if it is there.
func (t *timers) remove(s *session) {
	if s.timer == 0 {
		return
	}
	i, last := s.timer-1, len(t.heap)-1
	w := t.heap[last]
	t.heap[last] = wake{}
	t.heap = t.heap[:last]
	s.timer = 0
	if i < last {
		t.up(t.down(i, w), w)
	}
}

// up puts w at index i or above.
func (t *timers) up(i int, w wake) {
	for i > 0 {
		parent := (i - 1) / children
		if w.at >= t.heap[parent].at {
			break
		}
		t.put(i, t.heap[parent])
		i = parent
	}
	t.put(i, w)
}

// down makes room for w at index i or below, and returns that index.
func (t *timers) down(i int, w wake) int {
	for {
		first := children*i + 1
		if first >= len(t.heap) {
			return i
		}
		least := first
		for c := first + 1; c < min(first+children, len(t.heap)); c++ {
			if t.heap[c].at < t.heap[least].at {
				least = c
			}
		}
		if t.heap[least].at >= w.at {
			return i
		}
		t.put(i, t.heap[least])
		i = least
	}
}

func (t *timers) put(i int, w wake) {
	t.heap[i] = w
	w.session.timer = i + 1
}
