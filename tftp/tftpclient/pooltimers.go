package tftpclient

import "time"

// poolTimers is a heap of transfers, ordered by the time of their next check. That time may be
// earlier than the deadline: each packet moves the deadline to a later time, and only the check at
// the old time takes the new deadline into account.
type poolTimers struct {
	heap []poolTimed
}

type poolTimed struct {
	at       time.Duration // time since the loop began: half the size of a time.Time, and quicker to compare
	transfer *poolTransfer
}

// set ensures that t is checked at the given time or earlier.
func (h *poolTimers) set(t *poolTransfer, at time.Duration) {
	switch i := t.timer - 1; {
	case i < 0:
		h.heap = append(h.heap, poolTimed{at, t})
		h.up(len(h.heap) - 1)
	case at < h.heap[i].at:
		h.heap[i].at = at
		h.up(i)
	}
}

// first returns the transfer to check first, or nil if no transfer has a timer.
func (h *poolTimers) first() (*poolTransfer, time.Duration) {
	if len(h.heap) == 0 {
		return nil, 0
	}
	return h.heap[0].transfer, h.heap[0].at
}

// postpone moves the check of t, which must be in the heap, to a later time.
func (h *poolTimers) postpone(t *poolTransfer, at time.Duration) {
	i := t.timer - 1
	h.heap[i].at = at
	h.down(i)
}

// remove removes t from the heap if it is there.
func (h *poolTimers) remove(t *poolTransfer) {
	i := t.timer - 1
	if i < 0 {
		return
	}
	last := len(h.heap) - 1
	moved := h.heap[last]
	h.heap[last] = poolTimed{}
	h.heap = h.heap[:last]
	t.timer = 0
	if i < last {
		h.put(i, moved)
		h.down(i)
		h.up(moved.transfer.timer - 1)
	}
}

func (h *poolTimers) up(i int) {
	e := h.heap[i]
	for i > 0 && e.at < h.heap[(i-1)/2].at {
		h.put(i, h.heap[(i-1)/2])
		i = (i - 1) / 2
	}
	h.put(i, e)
}

func (h *poolTimers) down(i int) {
	e := h.heap[i]
	for 2*i+1 < len(h.heap) {
		child := 2*i + 1
		if child+1 < len(h.heap) && h.heap[child+1].at < h.heap[child].at {
			child++
		}
		if e.at <= h.heap[child].at {
			break
		}
		h.put(i, h.heap[child])
		i = child
	}
	h.put(i, e)
}

func (h *poolTimers) put(i int, e poolTimed) {
	h.heap[i] = e
	e.transfer.timer = i + 1
}
