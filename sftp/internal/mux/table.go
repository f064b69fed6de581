package mux

import "slices"

// A requester is a transfer or a call, which has made a request. The answer goes to it.
type requester interface {
	// sessionLost is called when the session of a request has ended before the answer.
	// inner is the request's name in the plan's link, or in the Ops.
	sessionLost(inner uint32, err error)
}

// A request is a request that is to be answered.
type request struct {
	id      uint32    // on the wire
	session *Session  // nil while the request is free
	inner   uint32    // its name in the plan's link, or in the Ops
	of      requester // what it is for
	sent    bool      // a WRITE that was granted may not have been sent yet

	off     int64    // of a transfer: where in the file
	n       int      // bytes
	to      []byte   // of a READ: where the data goes; nil for a buffer
	filling bool     // a session writes to it
	void    bool     // of a READ: the handle was guessed wrongly, and the plan has it back
	next    *request // the next free one
}

// A requestTable finds requests by their ids. An id is used again after the request was
// answered or its session has ended, and not before all other ids of the same slot.
type requestTable struct {
	all  []*request
	free *request
}

// tableBits is enough for all that a Link and an Ops can have outstanding, which is
// 4096 requests each.
const tableBits = 13

func (t *requestTable) add(s *Session, inner uint32, of requester) *request {
	a := t.free
	if a == nil {
		a = &request{id: uint32(len(t.all))}
		t.all = append(t.all, a)
	} else {
		t.free = a.next
	}
	*a = request{id: a.id + 1<<tableBits, session: s, inner: inner, of: of}
	return a
}

func (t *requestTable) find(id uint32) *request {
	i := int(id % (1 << tableBits))
	if i >= len(t.all) || t.all[i].id != id || t.all[i].session == nil {
		return nil
	}
	return t.all[i]
}

func (t *requestTable) remove(a *request) {
	*a = request{id: a.id, next: t.free}
	t.free = a
}

// removeAll removes the requests of a session, and returns copies of them.
func (t *requestTable) removeAll(s *Session) (removed []request) {
	for _, a := range t.all {
		if a.session == s {
			removed = append(removed, *a)
			t.remove(a)
		}
	}
	return removed
}

// used returns how many requests are to be answered.
func (t *requestTable) used() int {
	n := 0
	for _, a := range t.all {
		if a.session != nil {
			n++
		}
	}
	return n
}

// isFilling reports whether a session writes to memory of a transfer.
func (t *requestTable) isFilling(of requester) bool {
	return slices.ContainsFunc(t.all, func(a *request) bool { return a.of == of && a.filling })
}
