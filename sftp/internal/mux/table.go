package mux

import "slices"

// A requester is a transfer or a call that has sent a request and waits for the answer.
type requester interface {
	// sessionLost is called when the session of a request has ended before the answer arrived. The
	// argument inner is the request's ID in the [pipeline.Link] or the [pipeline.Ops] that counts
	// it.
	sessionLost(inner uint32, err error)
}

// A request is a request on the wire that waits for an answer.
type request struct {
	id      uint32    // the request's ID on the wire
	session *Session  // the session that carries the request; nil while this element is free
	inner   uint32    // the request's ID in the pipeline.Link of its plan, or in the pipeline.Ops
	of      requester // the transfer or call to which it belongs
	sent    bool      // false for a WRITE that was granted and is not sent yet

	off     int64    // for a READ or WRITE: the offset in the file
	n       int      // for a READ or WRITE: the number of bytes
	to      []byte   // for a READ: memory for the data; nil if the data goes into a buffer
	filling bool     // for a READ: a session is writing to the memory `to`
	void    bool     // for a READ: the guessed handle was wrong, so the plan requests the range again
	next    *request // the next element of the free list, if this element is free
}

// A requestTable finds requests by their IDs. An ID is reused only after its request was answered
// or its session has ended, and only when all other IDs of the same element have been used.
type requestTable struct {
	all  []*request
	free *request
}

// tableBits is the number of bits of an ID that hold the index of its element in requestTable.all.
// The table has room for all requests that a Link and an Ops can have outstanding, 4096 each.
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

// removeAll removes all requests of a session, and returns copies of them.
func (t *requestTable) removeAll(s *Session) (removed []request) {
	for _, a := range t.all {
		if a.session == s {
			removed = append(removed, *a)
			t.remove(a)
		}
	}
	return removed
}

// used returns the number of requests that wait for an answer.
func (t *requestTable) used() int {
	n := 0
	for _, a := range t.all {
		if a.session != nil {
			n++
		}
	}
	return n
}

// isFilling reports whether a session is writing to memory that belongs to the transfer.
func (t *requestTable) isFilling(of requester) bool {
	return slices.ContainsFunc(t.all, func(a *request) bool { return a.of == of && a.filling })
}
