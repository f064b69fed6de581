package boot

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/repeat"
)

var seed = flag.Uint64("seed", 1, "seed of the first simulation")

// plan is a plan with two servers of each kind.
func plan() Plan {
	return Plan{Firmware: EDK2, Loaders: 2, Images: 2, Stall: DefaultStall, Tries: 3, Away: DefaultAway, Seed: 7}
}

// at returns a time after the start.
func at(d time.Duration) time.Time { return epoch.Add(d) }

// wantOrder fails the test unless the order of a machine is as given.
func wantOrder(t *testing.T, m *Machine, s Step, offset int64, until time.Duration) {
	t.Helper()
	o := m.Order()
	if o.Step != s || s == Fetch && o.Offset != offset || s == Wait && !o.Until.Equal(at(until)) {
		t.Fatalf("it wants %+v, not step %d, offset %d, until %v", o, s, offset, until)
	}
}

// TFTP has no ranges: a loader is fetched from its start, at another server, after Firmware.Silence
// and Firmware.Pause. An image is resumed at another server.
func TestMachineAsksAnother(t *testing.T) {
	p := plan()
	m := p.Machine(0)
	if !m.Deadline().IsZero() || m.Expire(at(time.Hour)) {
		t.Error("a machine that is off has timers")
	}
	m.PowerOn(at(0))
	wantOrder(t, &m, Load, 0, 0)
	first := m.Order().Server
	m.Moved(at(time.Second), 500, 1000)
	if d := m.Deadline(); !d.Equal(at(25*time.Second)) || m.Expire(d.Add(-1)) || !m.Expire(d) {
		t.Errorf("it gives up at %v", d)
	}
	m.Ended(at(25*time.Second), Broken, "x")
	wantOrder(t, &m, Wait, 0, 26*time.Second)
	m.Expire(at(26 * time.Second))
	wantOrder(t, &m, Load, 0, 0)
	if m.Order().Server != 1-first {
		t.Error("it asks the same server")
	}
	m.Moved(at(27*time.Second), 1000, 1000)
	m.Ended(at(27*time.Second), Whole, "")
	wantOrder(t, &m, Fetch, 0, 0)
	first = m.Order().Server
	m.Moved(at(28*time.Second), 300, 1000)
	m.Ended(at(28*time.Second), Broken, "x")
	wantOrder(t, &m, Wait, 0, 28*time.Second+firstPause)
	m.Expire(m.Deadline())
	wantOrder(t, &m, Fetch, 300, 0)
	if m.Order().Server != 1-first {
		t.Error("it asks the same server")
	}
	m.Ended(at(30*time.Second), Busy, "x")
	wantOrder(t, &m, Wait, 0, 35*time.Second)
	m.Expire(m.Deadline())
	m.Moved(at(36*time.Second), 1000, 1000)
	m.Ended(at(36*time.Second), Whole, "")
	wantOrder(t, &m, Up, 0, 0)
	want := Count{Reloads: 1, Resumes: 2, Loader: 1500, Image: 1000}
	if m.Count() != want {
		t.Errorf("counted %+v, want %+v", m.Count(), want)
	}
}

// The pause after an interrupted image doubles up to a bound, and is short again once data has
// arrived.
func TestMachinePauses(t *testing.T) {
	p := plan()
	p.Loaders, p.Tries = 0, 10
	m := p.Machine(0)
	m.PowerOn(at(0))
	now := time.Duration(0)
	for _, want := range []time.Duration{250, 500, 1000, 2000, 4000, 8000, 8000} {
		m.Ended(at(now), Broken, "x")
		now += want * time.Millisecond
		wantOrder(t, &m, Wait, 0, now)
		m.Expire(at(now))
	}
	m.Moved(at(now), 1, 0)
	m.Ended(at(now), Broken, "x")
	wantOrder(t, &m, Wait, 0, now+firstPause)
}

// A machine fails with the last cause when it has failed often enough, when each server has denied
// the file, and at once for wrong content.
func TestMachineFails(t *testing.T) {
	for how, after := range map[Outcome]int{Broken: 3, Busy: 3, Denied: 2, Wrong: 1} {
		p := plan()
		m := p.Machine(0)
		m.PowerOn(at(0))
		for i := range after {
			if m.Order().Step != Load {
				t.Fatalf("outcome %d: it wants %+v after %d", how, m.Order(), i)
			}
			m.Ended(at(0), how, fmt.Sprint("cause ", i))
			m.Expire(m.Deadline())
		}
		if m.Order().Step != Failed || m.Cause() != fmt.Sprint("cause ", after-1) {
			t.Errorf("outcome %d: %+v, %q after %d", how, m.Order(), m.Cause(), after)
		}
	}
}

// Of many machines, the configured part loses power once, anywhere in both files.
func TestMachineLosesPower(t *testing.T) {
	p := plan()
	p.Lost = 0.25
	var cycles, early int
	for n := range 4000 {
		m := p.Machine(n)
		m.PowerOn(at(0))
		for m.Order().Step != Up {
			for got := int64(1); ; got++ {
				if m.Moved(at(0), got, 100) {
					if m.Order().Step == Fetch && got < 50 {
						early++
					}
					m.Ended(at(0), Vanished, "")
					wantOrder(t, &m, Wait, 0, DefaultAway)
					m.Expire(m.Deadline())
					wantOrder(t, &m, Load, 0, 0)
					break
				}
				if got == 100 {
					m.Ended(at(0), Whole, "")
					break
				}
			}
		}
		cycles += m.Count().Cycles
	}
	if cycles < 900 || cycles > 1100 || early < 200 || early > 300 {
		t.Errorf("%d of 4000 lost power, %d of them in the first half of the image", cycles, early)
	}
}

// Whatever happens to a machine, it comes up or fails within its tries, and counts each
// byte once.
func TestMachineEnds(t *testing.T) {
	for s := *seed; s < *seed+500; s++ {
		p := plan()
		p.Seed, p.Lost, p.NoResume = s, 0.5, s%3 == 0
		d := dice(s)
		m := p.Machine(int(s))
		now := epoch
		m.PowerOn(now)
		orders := 0
		for m.Order().Step != Up && m.Order().Step != Failed {
			if orders++; orders > 10_000 {
				repeat.OnFailure(t, fmt.Sprintf("-seed %d", s))
				t.Fatalf("seed %d: no end: %+v", s, m.Order())
			}
			if m.Order().Step == Wait {
				now = m.Deadline()
				m.Expire(now)
				continue
			}
			got := min(100, m.Order().Offset+int64(d.below(101)))
			now = now.Add(time.Second)
			switch {
			case m.Moved(now, got, 100):
				m.Ended(now, Vanished, "")
			case got == 100 && d.below(2) == 0:
				m.Ended(now, Whole, "")
			default:
				m.Ended(now, []Outcome{Broken, Busy, Denied}[d.below(3)], "x")
			}
		}
	}
}

func TestParseArrival(t *testing.T) {
	for text, want := range map[string]Arrival{
		"all": {}, "linear:10m0s": {Over: 10 * time.Minute}, "poisson:2.5": {Rate: 2.5},
	} {
		if a, err := ParseArrival(text); err != nil || a != want || a.String() != text {
			t.Errorf("%q: %+v, %v", text, a, err)
		}
	}
	for _, text := range []string{"", "all:1", "linear", "linear:0s", "linear:25h", "poisson:0", "poisson:x", "poisson:NaN", "other:1"} {
		if a, err := ParseArrival(text); err == nil {
			t.Errorf("%q: %+v", text, a)
		}
	}
}

// Times are sorted, follow the curve, and are the same for the same seed.
func TestArrivalTimes(t *testing.T) {
	const n = 10_000
	for a, end := range map[Arrival]time.Duration{{}: 0, {Over: time.Minute}: time.Minute, {Rate: 100}: 100 * time.Second} {
		times, again := a.Times(n, 3), a.Times(n, 3)
		for i := 1; i < n; i++ {
			if times[i] < times[i-1] || times[i] != again[i] {
				t.Fatalf("%v: %v behind %v, and then %v", a, times[i], times[i-1], again[i])
			}
		}
		if off := (times[n-1] - end).Abs(); off > end/20 {
			t.Errorf("%v: the last is switched on after %v", a, times[n-1])
		}
	}
}

func TestWhen(t *testing.T) {
	up := []time.Duration{1, 2, 3}
	for part, want := range map[float64]time.Duration{0.25: 1, 0.5: 2, 0.75: 3, 0.95: 0, 1: 0} {
		if at, ok := When(up, 4, part); at != want || ok != (want != 0) {
			t.Errorf("%v of 4: %v, %v", part, at, ok)
		}
	}
}
