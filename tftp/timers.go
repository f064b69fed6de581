package tftp

import "time"

// timers is a heap of sessions by the time at which to look at them. That
// time may be too early, never too late: a deadline that moves back, as it
// does with every packet, costs nothing until the old one comes.
type timers struct {
	heap []*session
}

// set makes sure that s is looked at by the given time; zero means never.
func (t *timers) set(s *session, at time.Time) {
	switch {
	case at.IsZero():
	case s.timer == 0:
		s.wakeAt = at
		t.heap = append(t.heap, s)
		t.up(len(t.heap) - 1)
	case at.Before(s.wakeAt):
		s.wakeAt = at
		t.up(s.timer - 1)
	}
}

// next returns when the first session is to be looked at; zero if none is.
func (t *timers) next() time.Time {
	if len(t.heap) == 0 {
		return time.Time{}
	}
	return t.heap[0].wakeAt
}

// pop takes out the first session if its time has come.
func (t *timers) pop(now time.Time) *session {
	if len(t.heap) == 0 || t.heap[0].wakeAt.After(now) {
		return nil
	}
	s := t.heap[0]
	t.remove(s)
	return s
}

// remove takes out s, if it is in.
func (t *timers) remove(s *session) {
	if s.timer == 0 {
		return
	}
	i, last := s.timer-1, len(t.heap)-1
	t.heap[i] = t.heap[last]
	t.heap[i].timer = i + 1
	t.heap[last] = nil
	t.heap = t.heap[:last]
	s.timer = 0
	if i < last {
		t.down(i)
		t.up(i)
	}
}

func (t *timers) up(i int) {
	s := t.heap[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !s.wakeAt.Before(t.heap[parent].wakeAt) {
			break
		}
		t.put(i, t.heap[parent])
		i = parent
	}
	t.put(i, s)
}

func (t *timers) down(i int) {
	s := t.heap[i]
	for {
		child := 2*i + 1
		if child+1 < len(t.heap) && t.heap[child+1].wakeAt.Before(t.heap[child].wakeAt) {
			child++
		}
		if child >= len(t.heap) || !t.heap[child].wakeAt.Before(s.wakeAt) {
			break
		}
		t.put(i, t.heap[child])
		i = child
	}
	t.put(i, s)
}

func (t *timers) put(i int, s *session) {
	t.heap[i], s.timer = s, i+1
}
