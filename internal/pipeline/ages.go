package pipeline

// ages lists the requests of a plan that may be repeated, from the oldest to the youngest. It is a
// doubly linked list whose elements are the requests in the link's table.
type ages struct {
	table            *table[request]
	oldest, youngest int32
}

// add adds a request, which becomes the youngest.
func (a *ages) add(x int32) { a.insert(a.youngest, x, none) }

// addBack adds a request again after its repetition has ended. It becomes the oldest.
func (a *ages) addBack(x int32) { a.insert(none, x, a.oldest) }

func (a *ages) insert(older, x, younger int32) {
	r := a.table.at(x)
	r.older, r.younger, r.waits = older, younger, true
	*a.youngerOf(older), *a.olderOf(younger) = x, x
}

// remove removes a request, if it is in the list.
func (a *ages) remove(x int32) {
	r := a.table.at(x)
	if r.waits {
		*a.youngerOf(r.older), *a.olderOf(r.younger) = r.younger, r.older
		r.older, r.younger, r.waits = none, none, false
	}
}

// youngerOf returns the field that holds the next younger request after x. The index none stands for
// the place before the oldest request, so youngerOf(none) is the field `oldest`.
func (a *ages) youngerOf(x int32) *int32 {
	if x == none {
		return &a.oldest
	}
	return &a.table.at(x).younger
}

// olderOf returns the field that holds the next older request before x. Here none stands for the
// place after the youngest request, so olderOf(none) is the field `youngest`.
func (a *ages) olderOf(x int32) *int32 {
	if x == none {
		return &a.youngest
	}
	return &a.table.at(x).older
}
