package localdir

import "slices"

// maxRuns is the largest number of separate pieces of a file, after the first gap, that are
// remembered. It is far larger than the number of requests that any protocol has in flight. Further
// pieces are forgotten, so they are sent again when the upload is resumed.
const maxRuns = 1024

// written records which parts of a file have been written.
type written struct {
	// prefix is the number of bytes from the start that were written without a gap.
	prefix int64
	runs   []run // the pieces after prefix, in order; they do not touch each other
}

// A run is a written piece of a file: the bytes in [from, to).
type run struct{ from, to int64 }

// add records that the bytes in [from, to) were written.
func (w *written) add(from, to int64) {
	if from >= to {
		return
	}
	if from <= w.prefix {
		w.prefix = max(w.prefix, to)
		w.catchUp()
		return
	}
	// Run i is the first one that ends at or after `from`, and run k the first one that begins after
	// `to`. The runs from i up to k, without k, are merged with the new one.
	i, _ := slices.BinarySearchFunc(w.runs, from, func(r run, at int64) int {
		if r.to < at {
			return -1
		}
		return 1
	})
	k := i
	for k < len(w.runs) && w.runs[k].from <= to {
		from, to = min(from, w.runs[k].from), max(to, w.runs[k].to)
		k++
	}
	if i == k && len(w.runs) == maxRuns {
		if i == maxRuns {
			return
		}
		w.runs = w.runs[:maxRuns-1] // forget the last run
	}
	w.runs = slices.Replace(w.runs, i, k, run{from, to})
}

// catchUp extends prefix over the runs that touch it now.
func (w *written) catchUp() {
	n := 0
	for n < len(w.runs) && w.runs[n].from <= w.prefix {
		w.prefix = max(w.prefix, w.runs[n].to)
		n++
	}
	w.runs = slices.Delete(w.runs, 0, n)
}

// cut forgets all writes at or after the offset size.
func (w *written) cut(size int64) {
	w.prefix = min(w.prefix, size)
	for n := len(w.runs); n > 0 && w.runs[n-1].to > size; n-- {
		w.runs[n-1].to = size
		if w.runs[n-1].from >= size {
			w.runs = w.runs[:n-1]
		}
	}
}
