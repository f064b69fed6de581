package pipeline

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/internal/repeat"
)

// simBugs are seeds that once found a bug.
var simBugs = []uint64{}

// TestSim moves small files over random paths from random servers, and checks every byte after
// every event.
func TestSim(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	seeds := simBugs
	n := uint64(*simSeeds)
	if race.Enabled {
		n /= 8 // see skipUnderRace
	}
	for i := range n {
		seeds = append(seeds, 1+i)
	}
	if *simSeed != 0 {
		seeds = []uint64{*simSeed}
	}
	failed := 0
	for _, seed := range seeds {
		w, about := randomWorld(seed)
		w.run()
		if w.problem == "" {
			w.judge()
		}
		if w.problem != "" {
			t.Errorf("seed %d: %s\n%s\nrepeat it with: %s", seed, w.problem, about, repeat.Command(t.Name(), fmt.Sprintf("-seed=%d -trace", seed)))
			if failed++; failed > 5 {
				t.Fatal("and more")
			}
		}
	}
}

// randomWorld makes a world from a seed. Each fault is disabled in half of the worlds.
func randomWorld(seed uint64) (w *world, about string) {
	rng := rand.New(rand.NewPCG(seed, 1))
	some := func() bool { return rng.IntN(2) == 0 }
	upTo := func(d time.Duration) time.Duration { return time.Duration(1 + rng.Int64N(int64(d))) }
	p := path{rtt: upTo(100 * time.Millisecond), opening: 1 + rng.IntN(4)}
	if some() {
		p.rate = 5_000 + rng.Int64N(1_000_000)
	}
	if some() {
		p.jitter = upTo(2 * p.rtt)
	}
	if some() {
		p.service = upTo(5 * time.Millisecond)
	}
	if some() {
		p.disk = upTo(20 * time.Millisecond)
	}
	if some() {
		p.refuse = 1 + rng.IntN(3)
	}
	chunk := 8 + rng.IntN(57)
	session := chunk * (1 + rng.IntN(8))
	l := Limits{
		SessionBytes: session,
		MinBytes:     chunk * (1 + rng.IntN(8)),
		MaxBytes:     chunk * (2 + rng.IntN(60)),
		Sessions:     1 + rng.IntN(6),
	}
	w = newWorld(p, l)
	w.rng, w.reopen, w.sticky = rng, some(), some()
	about = fmt.Sprintf("path %+v, limits %+v, chunk %d", p, l, chunk)
	for range 1 + rng.IntN(2)*rng.IntN(3) {
		about += "\n" + w.addRandom(chunk)
	}
	if some() {
		w.sessions[0].rate = 2_000 + rng.Int64N(20_000)
		about += fmt.Sprintf("\nsession 0 at %d B/s", w.sessions[0].rate)
	}
	// Events that happen during the run.
	if some() {
		for range 1 + rng.IntN(3) {
			i, after := rng.IntN(l.Sessions), upTo(time.Second)
			about += fmt.Sprintf("\nsession %d lost at %v", i, after)
			w.in(after, func() { w.loseSession(i) })
		}
	}
	if some() {
		rtt, rate, after := upTo(200*time.Millisecond), 5_000+rng.Int64N(1_000_000), upTo(time.Second)
		about += fmt.Sprintf("\nround trip %v, %d B/s at %v", rtt, rate, after)
		w.in(after, func() { w.path.rtt, w.path.rate = rtt, rate })
	}
	return w, about
}

// addRandom adds a random file.
func (w *world) addRandom(chunk int) (about string) {
	rng := w.rng
	some := func() bool { return rng.IntN(2) == 0 }
	size := rng.Int64N(3000)
	if rng.IntN(8) == 0 {
		size = rng.Int64N(3)
	}
	f := &simFile{size: size}
	c := Config{Size: size, Chunk: chunk, Repeat: some()}
	most := size
	switch rng.IntN(4) {
	case 0:
		c.Size = -1
	case 1:
		c.UntilEOF = true
		if some() {
			c.Size = rng.Int64N(size + 100)
		}
	case 2:
		c.Size = rng.Int64N(size + 100) // stat returned a wrong size, or the file has shrunk
	}
	most = max(most, c.Size)
	if some() {
		c.Offset = rng.Int64N(size + 10)
		most += c.Offset
	}
	if some() {
		c.Span = int64(1 + rng.IntN(10*chunk))
	}
	if some() {
		f.most = 1 + rng.IntN(chunk)
	}
	if some() {
		f.short = rng.Float64()
	}
	if some() {
		f.empty = 0.2 * rng.Float64()
	}
	if rng.IntN(4) == 0 {
		f.failAt = append(f.failAt, rng.Int64N(size+100), rng.Int64N(size+100))
	}
	if rng.IntN(4) == 0 {
		f.refuseAt = append(f.refuseAt, rng.Int64N(size+100), rng.Int64N(size+100))
	}
	about = fmt.Sprintf("file %+v, config %+v", *f, c)
	grown := size
	if rng.IntN(4) == 0 {
		to, after := rng.Int64N(2*size+10), time.Duration(rng.Int64N(int64(time.Second)))
		grown = max(grown, to)
		about += fmt.Sprintf("\n  size %d at %v", to, after)
		w.in(after, func() { f.size = to })
	}
	w.add(f, c, max(most, grown))
	f.p.shrinkTo = 1 + rng.Int64N(int64(chunk))
	if rng.IntN(4) == 0 {
		about += "\n  " + w.pace(f, chunk)
	}
	if rng.IntN(20) == 0 {
		after := time.Duration(rng.Int64N(int64(time.Second)))
		about += fmt.Sprintf("\n  stopped at %v", after)
		w.in(after, func() {
			f.m.local.note(-1, errUnnamed)
			f.p.Stop(nil)
		})
	}
	return about
}

// pace makes the driver move the limit of a file step by step.
func (w *world) pace(f *simFile, chunk int) string {
	step, every := 1+w.rng.Int64N(int64(4*chunk)), time.Duration(1+w.rng.Int64N(int64(10*time.Millisecond)))
	flushes := w.rng.IntN(2) == 0
	ends := f.m.c.Size < 0 && w.rng.IntN(2) == 0 // finally call EndAt, as a writer does when it is closed
	to := f.m.start
	f.m.setLimit(to)
	var move func()
	move = func() {
		to += step
		f.m.setLimit(to)
		if flushes && w.rng.IntN(4) == 0 {
			f.m.flush()
		}
		switch {
		case to < int64(len(f.m.bytes)):
			w.in(every, move)
		case ends:
			f.m.endAt(int64(len(f.m.bytes)) - 1)
			fallthrough
		default:
			f.m.setLimit(noEnd)
		}
	}
	w.in(every, move)
	return fmt.Sprintf("limit moves by %d each %v, flushes %v, ends %v", step, every, flushes, ends)
}

// judge checks the final state of all files.
func (w *world) judge() {
	for _, f := range w.files {
		m := f.m
		m.judge()
		if m.problem == "" {
			w.judgeFile(f)
		}
		if m.problem != "" {
			w.fail("%s", m.problem)
		}
	}
}

func (w *world) judgeFile(f *simFile) {
	m, p := f.m, f.p
	remote, local := p.Err()
	st := p.Stats()
	if f.sink != nil && f.sink.next != p.Contiguous() {
		m.fail("the sink has %d bytes of %d", f.sink.next, p.Contiguous())
	}
	if len(f.failAt) == 0 && remote != nil && remote != ErrNoProgress || len(f.refuseAt) == 0 && local != nil && local != errUnnamed {
		m.fail("errors out of nothing: %v, %v", remote, local)
	}
	// Each request must be needed for another chunk, or because of an event that cut a request short.
	needed := int64(len(m.bytes))/p.chunk + 2
	cuts := st.Short + st.Empty + st.Lost + st.Repeats + int64(m.eofs+m.steps)
	if st.Requests > 2*needed+2*cuts {
		m.fail("%d requests, where some %d are needed: %+v", st.Requests, needed, st)
	}
}
