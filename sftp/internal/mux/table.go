package mux

import "slices"

// A request is a request that is to be answered.
type request struct {
	id    uint32 // on the wire
	lane  *Lane  // nil while it is free
	inner uint32 // its name in the plan's link, or in the Ops
	sent  bool   // a WRITE that was granted may not have been

	call     *Call     // one of these two
	transfer *Transfer //
	off      int64     // of a transfer: where in the file
	n        int       // bytes
	to       []byte    // of a READ: where the data goes; nil for a buffer
	filling  bool      // a lane is writing to it
	void     bool      // of a READ: the handle was guessed wrongly, and the plan has it back
	next     *request  // free one behind this
}

// A requestTable finds requests by their ids. An id is used again when the
// request was answered, or its lane has ended, and not before all others that
// share its place have been.
type requestTable struct {
	all  []*request
	free *request
	data int // that are of transfers
}

// tableBits is for all that a Link and an Ops can have outstanding, which is
// 4096 each.
const tableBits = 13

func (t *requestTable) add(l *Lane, inner uint32) *request {
	a := t.free
	if a == nil {
		a = &request{id: uint32(len(t.all))}
		t.all = append(t.all, a)
	} else {
		t.free = a.next
	}
	*a = request{id: a.id + 1<<tableBits, lane: l, inner: inner}
	return a
}

func (t *requestTable) find(id uint32) *request {
	i := int(id % (1 << tableBits))
	if i >= len(t.all) || t.all[i].id != id || t.all[i].lane == nil {
		return nil
	}
	return t.all[i]
}

func (t *requestTable) remove(a *request) {
	if a.transfer != nil {
		t.data--
	}
	*a = request{id: a.id, next: t.free}
	t.free = a
}

// filling reports whether a lane writes to memory of a transfer.
func (t *requestTable) filling(of *Transfer) bool {
	return slices.ContainsFunc(t.all, func(a *request) bool { return a.transfer == of && a.filling })
}
