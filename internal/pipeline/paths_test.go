package pipeline

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/race"
)

// These tests examine the window on paths that change, and on some paths that give misleading
// measurements.

// skipUnderRace skips a test if the race detector is enabled. It is for slow tests with only one
// goroutine, in which the detector could find nothing.
func skipUnderRace(t *testing.T) {
	t.Helper()
	if race.Enabled {
		t.Skip("long, and nothing to race")
	}
}

// A meter counts the bytes that move in a world between two times.
type meter struct {
	w        *world
	from, to time.Duration
	bytes    int64
	peak     int64 // the largest window
}

// meter starts counting from one time to another. Several meters may run at once.
func (w *world) meter(from, to time.Duration) *meter {
	m := &meter{w: w, from: from, to: to}
	before := w.onMoved
	w.onMoved = func(n int) {
		if before != nil {
			before(n)
		}
		if at := w.now.Sub(w.base); at >= from && at < to {
			m.bytes += int64(n)
			m.peak = max(m.peak, w.link.bytes.out)
		}
	}
	return m
}

// percent returns the percentage of a rate that was reached.
func (m *meter) percent(rate int64) int64 {
	return mulDiv(m.bytes, 100*int64(time.Second), int64(m.to-m.from)) / rate
}

const gigabit = 125_000_000 // bytes per second

// The window adapts to a path that becomes longer, slower, shorter or faster. It grows at once if more
// bytes should be outstanding. Otherwise it shrinks when the old measurements have expired.
func TestPathChanges(t *testing.T) {
	skipUnderRace(t)
	type state struct {
		rtt  time.Duration
		rate int64
	}
	for _, test := range []struct {
		name          string
		before, after state
	}{
		{"longer", state{20 * ms, gigabit}, state{80 * ms, gigabit}},
		{"much longer", state{5 * ms, gigabit}, state{100 * ms, gigabit}},
		{"shorter", state{100 * ms, gigabit}, state{20 * ms, gigabit}},
		{"much shorter", state{100 * ms, gigabit}, state{2 * ms, gigabit}},
		{"slower", state{50 * ms, gigabit}, state{50 * ms, gigabit / 10}},
		{"faster", state{50 * ms, gigabit / 10}, state{50 * ms, gigabit}},
		{"longer and slower", state{20 * ms, gigabit}, state{80 * ms, gigabit / 4}},
		{"shorter and faster", state{80 * ms, gigabit / 4}, state{20 * ms, gigabit}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(path{rtt: test.before.rtt, rate: test.before.rate, opening: 3, jitter: ms}, Limits{Sessions: 32})
			w.rng = rand.New(rand.NewPCG(1, 1))
			const change = 25 * time.Second
			w.in(change, func() { w.path.rtt, w.path.rate = test.after.rtt, test.after.rate })
			before := w.meter(change-10*time.Second, change)
			soon := w.meter(change+5*time.Second, change+10*time.Second)
			late := w.meter(change+30*time.Second, change+40*time.Second)
			size := mulDiv(test.before.rate, int64(change), int64(time.Second)) + 45*test.after.rate
			w.measure(t, Config{Size: size, Chunk: sshChunk, Repeat: true})
			product := func(s state) int64 {
				return mulDiv(s.rate, int64(s.rtt+ms+transmission(sshChunk, s.rate)), int64(time.Second))
			}
			for _, part := range []struct {
				name  string
				meter *meter
				state state
				least int64 // percent
				most  int64 // maximum number of bandwidth-delay products in flight; 0 means any number
			}{
				{"before", before, test.before, 95, 3},
				{"soon", soon, test.after, 90, 0},
				{"late", late, test.after, 95, 3},
			} {
				got, products := part.meter.percent(part.state.rate), part.meter.peak*10/product(part.state)
				t.Logf("%s: %d %%, %d.%d products in flight", part.name, got, products/10, products%10)
				if got < part.least {
					t.Errorf("%s: %d %% of the link, want %d", part.name, got, part.least)
				}
				if part.most > 0 && part.meter.peak > max(part.most*product(part.state), DefaultMinBytes) {
					t.Errorf("%s: %d bytes in flight, the product is %d", part.name, part.meter.peak, product(part.state))
				}
			}
		})
	}
}

// A path may become slower at any moment, even when the round trip is about to be measured again.
// The control must not mistake the queue for the path then.
func TestSlowerAtAnyMoment(t *testing.T) {
	skipUnderRace(t)
	for change := 9 * time.Second; change < 12*time.Second; change += 250 * ms {
		w := newWorld(path{rtt: 50 * ms, rate: gigabit, opening: 3}, Limits{Sessions: 32})
		w.rng = rand.New(rand.NewPCG(1, 1))
		w.in(change, func() { w.path.rate = gigabit / 20 })
		late := w.meter(change+5*time.Second, change+10*time.Second)
		w.measure(t, Config{Size: mulDiv(gigabit, int64(change), int64(time.Second)) + 11*gigabit/20, Chunk: sshChunk})
		if product := int64(gigabit * 52 / 1000); late.peak > product {
			t.Errorf("slower after %v: %d bytes in flight, the product was %d before", change, late.peak, product)
		}
	}
}

// On a fast network with a short round trip, the smallest window is enough. The window must not grow,
// however long the transfer lasts, and whether answers wait for other answers, a busy server, or our
// own disk.
func TestNoBlowUp(t *testing.T) {
	for _, test := range []struct {
		name string
		path path
	}{
		{"idle", path{rtt: 200 * time.Microsecond, rate: gigabit}},
		{"jitter", path{rtt: 200 * time.Microsecond, rate: gigabit, jitter: 2 * time.Millisecond}},
		{"slow disk", path{rtt: 200 * time.Microsecond, rate: gigabit, disk: 10 * time.Millisecond}},
		{"busy server", path{rate: gigabit, service: 3 * time.Millisecond}},
		{"slow link", path{rtt: 10 * time.Millisecond, rate: gigabit / 30}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.path.opening = 3
			w := newWorld(test.path, Limits{})
			w.rng = rand.New(rand.NewPCG(1, 1))
			late := w.meter(20*time.Second, 100*time.Second)
			r := w.measure(t, Config{Size: 100 * gigabit / 4, Chunk: sshChunk})
			t.Logf("peak %d, and %d late; %d sessions; %d %%; least round trip %v", r.peak, late.peak, r.sessions, r.percent(), w.link.RoundTrip())
			if r.peak > 2*DefaultMinBytes {
				t.Errorf("%d bytes in flight", r.peak)
			}
		})
	}
}

// Measuring the round trip again costs about one round trip every ten seconds.
func TestMeasuringCostsLittle(t *testing.T) {
	skipUnderRace(t)
	for _, rtt := range []time.Duration{time.Millisecond, 50 * time.Millisecond, 300 * time.Millisecond} {
		w := newWorld(path{rtt: rtt, rate: gigabit, opening: 3}, Limits{Sessions: 64, MaxBytes: 256 * mib})
		w.rng = rand.New(rand.NewPCG(1, 1))
		all := w.meter(10*time.Second, 70*time.Second)
		w.measure(t, Config{Size: 75 * gigabit, Chunk: sshChunk})
		if got := all.percent(gigabit); got < 97 {
			t.Errorf("round trip %v: %d %% of the link", rtt, got)
		}
		if w.link.bytes.probe < 3 {
			t.Errorf("round trip %v: measured %d times", rtt, w.link.bytes.probe)
		}
	}
}

// A session that is much slower than the others would delay the completion of a file. It would also
// delay a sink that takes bytes in order, all the time. Repeating its late requests on other sessions
// prevents that.
func TestSlowSession(t *testing.T) {
	for _, span := range []int64{0, 16 * mib} {
		took := map[bool]time.Duration{}
		for _, repeat := range []bool{false, true} {
			w := newWorld(path{rtt: 20 * time.Millisecond, rate: gigabit, opening: 3}, Limits{Sessions: 4, MinBytes: 4 * DefaultSessionBytes})
			w.rng = rand.New(rand.NewPCG(1, 1))
			w.sessions = []*simSession{{up: true}, {up: true}, {up: true}, {up: true, rate: gigabit / 100}}
			r := w.measure(t, Config{Size: 256 * mib, Chunk: sshChunk, Repeat: repeat, Span: span})
			took[repeat] = r.took
			t.Logf("span %d, repeat %v: %v, %+v", span, repeat, r.took, r.stats)
		}
		if took[true] > took[false]*3/4 {
			t.Errorf("span %d: %v with repeats, %v without", span, took[true], took[false])
		}
	}
}

// If requests may be repeated, a session that dies without an error does not delay the transfer.
func TestDeadSession(t *testing.T) {
	w := newWorld(path{rtt: 20 * time.Millisecond, rate: gigabit, opening: 3}, Limits{Sessions: 4})
	w.rng = rand.New(rand.NewPCG(1, 1))
	f := &simFile{p: New(Config{Link: w.link, Size: 256 * mib, Chunk: sshChunk, Repeat: true})}
	f.size = 256 * mib
	w.files = append(w.files, f)
	w.in(time.Second, func() { w.sessions[1].dead = true })
	w.run()
	if w.problem != "" || !f.p.Done() {
		t.Fatalf("%s: done %v, %d moved", w.problem, f.p.Done(), f.p.Stats().Moved)
	}
	if took := f.done.Sub(w.base); took > 4*time.Second {
		t.Errorf("it took %v", took)
	}
	if f.p.Outstanding() == 0 {
		t.Error("the dead session has answered")
	}
	w.link.SessionLost(1)
	if f.p.Outstanding() != 0 || w.link.bytes.out != 0 {
		t.Errorf("%d requests outstanding without a session", f.p.Outstanding())
	}
}

// If all sessions have the same speed, no request is repeated.
func TestNoNeedlessRepeats(t *testing.T) {
	for _, p := range []path{
		{rtt: 20 * time.Millisecond, rate: gigabit},
		{rtt: 20 * time.Millisecond, rate: gigabit, jitter: 10 * time.Millisecond},
		{rtt: 100 * time.Millisecond, rate: gigabit, service: time.Millisecond},
		{rtt: 200 * time.Microsecond, rate: gigabit},
	} {
		p.opening = 3
		w := newWorld(p, Limits{})
		w.rng = rand.New(rand.NewPCG(1, 1))
		if r := w.measure(t, Config{Size: 256 * mib, Chunk: sshChunk, Repeat: true}); r.stats.Repeats > 8 {
			t.Errorf("%+v: %+v", p, r.stats)
		}
	}
}
