package pipeline

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/haul-project/haul/internal/repeat"
)

var piecesSeed = flag.Uint64("pieces", 0, "run this one seed of TestPieces")

// TestPieces makes thousands of holes in random places, and then fills them.
func TestPieces(t *testing.T) {
	seeds := []uint64{1, 2, 3}
	if *piecesSeed != 0 {
		seeds = []uint64{*piecesSeed}
	}
	for _, seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 3))
		m := &model{p: New(Config{Size: 20_000, Chunk: 10})}
		var taken []int32
		for range 800 {
			m.p.pieces.finish(m.p.pieces.take(1 + rng.Int64N(12)))
			taken = append(taken, m.p.pieces.take(1+rng.Int64N(12)))
		}
		for step := range 5000 {
			ps := &m.p.pieces
			switch n := rng.IntN(10); {
			case n < 5 && len(ps.holes) > 0:
				first := ps.all[ps.holes[0]].off
				for _, i := range ps.holes {
					first = min(first, ps.all[i].off)
				}
				i := ps.take(1 + rng.Int64N(10))
				if ps.all[i].off != first {
					t.Fatalf("seed %d, step %d: took %d, and the first hole is at %d", seed, step, ps.all[i].off, first)
				}
				ps.all[i].asks[0] = int32(len(taken)) // as if it had been requested
				taken = append(taken, i)
			case n < 9 && len(taken) > 0:
				x := rng.IntN(len(taken))
				i := taken[x]
				taken = slices.Delete(taken, x, x+1)
				ps.all[i].asks[0] = none
				if s := ps.all[i]; n < 7 && s.end-s.off > 1 {
					ps.cut(i, s.off+1+rng.Int64N(s.end-s.off-1))
				}
				if n == 8 {
					ps.finish(i)
				} else {
					ps.giveBack(i)
				}
			case n == 9 && rng.IntN(200) == 0 && len(taken) == 0:
				m.p.EndAt(m.p.end - rng.Int64N(100))
			}
			checkHeap(t, ps, seed, step)
		}
	}
}

// TestHeap removes holes from the middle of the heap, which requires many holes.
func TestHeap(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 4))
		var ps pieces
		ps.reset(0, 0)
		for i := range int64(40) {
			ps.before(none, i, i+1)
		}
		var order []int32
		for _, i := range rng.Perm(40) {
			ps.push(int32(i))
			order = append(order, int32(i))
		}
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for step, i := range order {
			checkHeap(t, &ps, seed, step)
			ps.pop(i)
			ps.all[i].state = asked
		}
	}
}

func checkHeap(t *testing.T, ps *pieces, seed uint64, step int) {
	t.Helper()
	pos, holes := ps.all[ps.first].off, 0
	for i := ps.first; i != none; i = ps.all[i].next {
		s := ps.all[i]
		if s.off != pos || s.end <= s.off {
			t.Fatalf("seed %d, step %d: piece %+v does not follow %d", seed, step, s, pos)
		}
		if pos = s.end; s.state != hole {
			continue
		}
		holes++
		if ps.holes[s.place] != i || s.place > 0 && ps.all[ps.holes[(s.place-1)/2]].off > s.off {
			t.Fatalf("seed %d, step %d: hole %+v is in the wrong place\nrepeat it with: %s", seed, step, s, repeat.Command(t.Name(), fmt.Sprintf("-pieces=%d", seed)))
		}
	}
	if holes != len(ps.holes) {
		t.Fatalf("seed %d, step %d: %d holes, and %d in the heap", seed, step, holes, len(ps.holes))
	}
}
