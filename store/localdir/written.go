package localdir

import "slices"

// maxRuns is the largest number of separate pieces of a file beyond a gap that are remembered until
// the gap is filled. It is far above the number of requests that any protocol has under way.
// Further pieces are forgotten, and are sent again when the upload is resumed.
const maxRuns = 1024

// written records how much of a file was written without a gap from its start.
type written struct {
	prefix int64
	runs   []run // after prefix, in order, not touching each other
}

// A run is a piece of a file, [from, to).
type run struct{ from, to int64 }

// add records that [from, to) was written.
func (w *written) add(from, to int64) {
	if from >= to {
		return
	}
	if from <= w.prefix {
		w.prefix = max(w.prefix, to)
		w.catchUp()
		return
	}
	// Find the first run that ends at or after from, and the first that begins after to. All runs
	// in between are merged with the new one.
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
		w.runs = w.runs[:maxRuns-1] // drop the last ones
	}
	w.runs = slices.Replace(w.runs, i, k, run{from, to})
}

// catchUp extends the prefix over the runs that it has reached.
func (w *written) catchUp() {
	n := 0
	for n < len(w.runs) && w.runs[n].from <= w.prefix {
		w.prefix = max(w.prefix, w.runs[n].to)
		n++
	}
	w.runs = slices.Delete(w.runs, 0, n)
}

// cut forgets everything after size.
func (w *written) cut(size int64) {
	w.prefix = min(w.prefix, size)
	for n := len(w.runs); n > 0 && w.runs[n-1].to > size; n-- {
		w.runs[n-1].to = size
		if w.runs[n-1].from >= size {
			w.runs = w.runs[:n-1]
		}
	}
}
