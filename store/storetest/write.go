package storetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/haul-project/haul/store"
)

func testWriteOrder(t *testing.T, st store.Store) {
	data := pattern(3000, 7)
	u := create(t, st, "backwards", store.Create{})
	for off := len(data) - 1000; off >= 0; off -= 1000 {
		write(t, u, data[off:off+1000], int64(off))
	}
	write(t, u, data[500:1500], 500) // the same bytes again
	commit(t, u)
	wantContent(t, st, "backwards", data)

	u = create(t, st, "hole", store.Create{Size: 100})
	write(t, u, "end", 5000)
	write(t, u, "start", 0)
	commit(t, u)
	want := make([]byte, 5003)
	copy(want, "start")
	copy(want[5000:], "end")
	wantContent(t, st, "hole", want)
}

func testWriteConcurrently(t *testing.T, st store.Store) {
	const piece = 1000
	data := pattern(64*piece, 3)
	u := create(t, st, "f", store.Create{})
	var wg sync.WaitGroup
	for off := 0; off < len(data); off += piece {
		wg.Go(func() { write(t, u, data[off:off+piece], int64(off)) })
	}
	wg.Wait()
	commit(t, u)
	wantContent(t, st, "f", data)
}

func testSizeDoesNotBind(t *testing.T, st store.Store) {
	for _, size := range []int{0, 10, 20, 5000} {
		name := fmt.Sprint("f", size)
		u := create(t, st, name, store.Create{Size: 20})
		write(t, u, pattern(size, 1), 0)
		commit(t, u)
		wantContent(t, st, name, pattern(size, 1))
	}
}

func testTruncate(t *testing.T, st store.Store) {
	u := create(t, st, "f", store.Create{Size: 50})
	write(t, u, "0123456789", 0)
	truncate(t, u, 4)
	write(t, u, "ab", 8) // the bytes that were cut off must read as zeros
	truncate(t, u, 12)
	commit(t, u)
	wantContent(t, st, "f", []byte("0123\x00\x00\x00\x00ab\x00\x00"))

	u = create(t, st, "empty", store.Create{})
	write(t, u, "0123456789", 0)
	truncate(t, u, 0)
	commit(t, u)
	wantContent(t, st, "empty", nil)

	u = create(t, st, "zeros", store.Create{})
	truncate(t, u, 3000)
	commit(t, u)
	wantContent(t, st, "zeros", make([]byte, 3000))
}

// page is a likely unit of holes in files, in bytes.
const page = 4096

// testWriteZeros writes zeros to gaps, over data, and over zeros: a store may leave holes for them.
func testWriteZeros(t *testing.T, st store.Store) {
	zeros, data := make([]byte, 4*page), pattern(4*page, 5)
	for _, size := range []int64{0, 10 * page} {
		u := create(t, st, "over", store.Create{Size: size})
		write(t, u, data, 0)
		write(t, u, zeros[:page], page)      // a page of data becomes zeros
		write(t, u, zeros, 4*page)           // after all data
		write(t, u, data[:100], 5*page+50)   // into the zeros
		write(t, u, zeros[:page+10], 3*page) // across the end of data
		write(t, u, zeros[:1], 9*page)       // a single last zero
		commit(t, u)
		want := make([]byte, 9*page+1)
		copy(want, data[:3*page])
		clear(want[page : 2*page])
		copy(want[5*page+50:], data[:100])
		wantContent(t, st, "over", want)
	}

	u := create(t, st, "cut", store.Create{})
	write(t, u, data, 0)
	truncate(t, u, page)
	write(t, u, zeros, 2*page) // over earlier data
	commit(t, u)
	want := make([]byte, 6*page)
	copy(want, data[:page])
	wantContent(t, st, "cut", want)

	u = create(t, st, "all", store.Create{})
	write(t, u, zeros, 0)
	commit(t, u)
	wantContent(t, st, "all", zeros)
}

// testWriteAtRandom makes the same random writes and truncations in an upload and in a slice, and
// compares the results. The seed is fixed, so each run makes the same operations.
func testWriteAtRandom(t *testing.T, st store.Store) {
	const rounds, ops, most = 8, 60, 40 * page
	rnd := rand.New(rand.NewPCG(1, 2))
	around := func(limit int) int { // half of the results are close to the end of a page
		n := rnd.IntN(limit)
		if rnd.IntN(2) == 0 {
			n = max(0, n/page*page+rnd.IntN(3)-1)
		}
		return n
	}
	for round := range rounds {
		name := fmt.Sprint("f", round)
		u := create(t, st, name, store.Create{Size: int64(round % 2 * most)})
		var model []byte
		extend := func(size int) {
			if size > len(model) {
				model = append(model, make([]byte, size-len(model))...)
			}
		}
		for op := range ops {
			off := around(most)
			if rnd.IntN(10) == 0 {
				truncate(t, u, int64(off))
				extend(off)
				model = model[:off:off]
				continue
			}
			p := mixed(rnd, 1+around(8*page), byte(op))
			write(t, u, p, int64(off))
			extend(off + len(p))
			copy(model[off:], p)
		}
		commit(t, u)
		wantContent(t, st, name, model)
	}
}

// mixed returns n bytes in which pieces of data and pieces of zeros alternate.
func mixed(rnd *rand.Rand, n int, seed byte) []byte {
	p := pattern(n, seed)
	for at := 0; at < n; {
		size := min(n-at, 1+rnd.IntN(2*page))
		if rnd.IntN(2) == 0 {
			clear(p[at : at+size])
		}
		at += size
	}
	return p
}

// testGrow writes a file in pieces, as they arrive from a network. The file grows beyond the size
// from which a store may keep it in a different way than a small one.
func testGrow(t *testing.T, st store.Store) {
	data := pattern(2<<20+123, 8)
	for _, size := range []int64{0, 1000, 3 << 20} {
		u := create(t, st, "grow", store.Create{Size: size})
		for off := 0; off < len(data); off += 10_000 {
			write(t, u, data[off:min(off+10_000, len(data))], int64(off))
		}
		commit(t, u)
		wantContent(t, st, "grow", data)
	}
	for _, cut := range []int64{300 << 10, 20 << 10, 100, 0} { // first large sizes, then small ones
		u := create(t, st, "cut", store.Create{})
		write(t, u, data[:1<<20], 0)
		truncate(t, u, cut)
		truncate(t, u, cut+100)
		commit(t, u)
		want := append(bytes.Clone(data[:cut]), make([]byte, 100)...)
		wantContent(t, st, "cut", want)
	}
}
