package localdir

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// FuzzCheckpoint checks that parseCheckpoint accepts only bytes that appendTo writes for the same
// checkpoint.
func FuzzCheckpoint(f *testing.F) {
	good := checkpoint{seq: 7, safe: 1 << 40, size: 1 << 39, expected: 1 << 41, inode: 12, tail: 99}.appendTo(nil)
	f.Add(good)
	f.Add(good[:recordBytes-1])
	f.Add(checkpoint{safe: 1, size: 2}.appendTo(nil))
	f.Add(checkpoint{safe: -1}.appendTo(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := parseCheckpoint(b)
		if !ok {
			return
		}
		if got := m.appendTo(nil); !bytes.Equal(got, b[:recordBytes]) {
			t.Errorf("%x became %+v and %x", b, m, got)
		}
		if m.safe < 0 || m.size < 0 || m.size > m.safe {
			t.Errorf("%+v makes no sense", m)
		}
		if _, ok := readCheckpoint(bytes.NewReader(b)); !ok {
			t.Error("found no checkpoint in its first place")
		}
	})
}

func TestReadCheckpoint(t *testing.T) {
	older, newer := checkpoint{seq: 4, safe: 10, size: 5}, checkpoint{seq: 5, safe: 20, size: 20}
	file := make([]byte, 2*slotBytes)
	copy(file, older.appendTo(nil))
	if m, ok := readCheckpoint(bytes.NewReader(file)); !ok || m != older {
		t.Errorf("one checkpoint: %+v, %v", m, ok)
	}
	copy(file[slotBytes:], newer.appendTo(nil))
	if m, ok := readCheckpoint(bytes.NewReader(file[:slotBytes+recordBytes])); !ok || m != newer {
		t.Errorf("two checkpoints: %+v, %v", m, ok)
	}
	for i := range recordBytes { // each byte counts
		file[slotBytes+i] ^= 1
		if m, ok := readCheckpoint(bytes.NewReader(file)); !ok || m != older {
			t.Errorf("byte %d of the newer changed: %+v, %v", i, m, ok)
		}
		file[slotBytes+i] ^= 1
	}
	for _, n := range []int{0, 1, recordBytes - 1} {
		if m, ok := readCheckpoint(bytes.NewReader(file[:n])); ok {
			t.Errorf("%d bytes: %+v", n, m)
		}
	}
}

// TestWritten records writes at random, and compares with a list of all bytes. The seeds are fixed,
// so that each run is the same.
func TestWritten(t *testing.T) {
	const size = 400
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var w written
		var model [size]bool
		for range 60 {
			from := rnd.IntN(size)
			to := min(size, from+rnd.IntN(40))
			if rnd.IntN(15) == 0 {
				w.cut(int64(from))
				clear(model[from:])
			} else {
				w.add(int64(from), int64(to))
				for i := from; i < to; i++ {
					model[i] = true
				}
			}
			checkWritten(t, w, model[:])
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func checkWritten(t *testing.T, w written, model []bool) {
	t.Helper()
	got := make([]bool, len(model))
	for i := range w.prefix {
		got[i] = true
	}
	end := w.prefix
	for _, r := range w.runs {
		if r.from <= end || r.to <= r.from {
			t.Errorf("runs %v behind %d touch, or are empty, or in disorder", w.runs, w.prefix)
		}
		for i := r.from; i < r.to; i++ {
			got[i] = true
		}
		end = r.to
	}
	for i := range model {
		if got[i] != model[i] {
			t.Errorf("byte %d: %v, want %v; %+v", i, got[i], model[i], w)
			return
		}
	}
}

// TestWrittenBound writes more separate pieces than are remembered. The nearest pieces must be
// remembered, and a forgotten piece must never count as written.
func TestWrittenBound(t *testing.T) {
	var w written
	for i := range int64(2 * maxRuns) {
		w.add(4*maxRuns-2*i, 4*maxRuns-2*i+1) // from the far end
		if len(w.runs) > maxRuns {
			t.Fatalf("%d runs", len(w.runs))
		}
	}
	for i := range int64(maxRuns) {
		w.add(2*i, 2*i+2)
	}
	if w.prefix < 2*maxRuns || w.prefix > 2*maxRuns+1 {
		t.Errorf("the prefix is %d", w.prefix)
	}
}
