package mux

import "slices"

// A requester has made a request and gets the answer. It is a transfer or a call.
type requester interface {
	// sessionLost is called when the session of a request has ended before the answer arrived.
	// inner is the request's id in the plan's link, or in the Ops.
	sessionLost(inner uint32, err error)
}

// A request waits for an answer.
type request struct {
	id      uint32    // on the wire
	session *Session  // nil while the request is free
	inner   uint32    // its id in the plan's link, or in the Ops
	of      requester // the transfer or call that made it
	sent    bool      // false while a WRITE that was granted has not been sent

	off     int64    // in a transfer: the offset in the file
	n       int      // in a transfer: the number of bytes
	to      []byte   // for a READ: where the data is stored; nil for a buffer
	filling bool     // a session is writing to that memory
	void    bool     // for a READ: the guessed handle was wrong, and the plan has taken the range back
	next    *request // the next free one
}

// A requestTable finds requests by their ids. An id is reused only after the request was answered
// or its session has ended, and only when all other ids of the same slot have been used.
type requestTable struct {
	all  []*request
	free *request
}

// tableBits has room for all requests that a Link and an Ops can have outstanding, which is 4096
// each.
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

// used returns how many requests wait for an answer.
func (t *requestTable) used() int {
	n := 0
	for _, a := range t.all {
		if a.session != nil {
			n++
		}
	}
	return n
}

// isFilling reports whether a session is writing to memory of a transfer.
func (t *requestTable) isFilling(of requester) bool {
	return slices.ContainsFunc(t.all, func(a *request) bool { return a.of == of && a.filling })
}
