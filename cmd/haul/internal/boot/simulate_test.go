package boot

import (
	"slices"
	"testing"
	"time"
)

// simulate simulates a site, and fails the test unless the figures are plausible.
func simulate(t *testing.T, s Site) Simulated {
	t.Helper()
	r, err := Simulate(s)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Up)+r.Failed != s.Machines || !slices.IsSorted(r.Up) {
		t.Fatalf("%d up and %d failed of %d", len(r.Up), r.Failed, s.Machines)
	}
	return r
}

// last returns when the last machine was up.
func last(r Simulated) time.Duration { return r.Up[len(r.Up)-1] }

// Without losses a simulation takes as long as the slowest of links, cores, store and arrivals, by
// arithmetic.
func TestSimulateKeepsToBounds(t *testing.T) {
	for name, change := range map[string]func(*Site){
		"link":     func(*Site) {},
		"cores":    func(s *Site) { s.Cores = 0.1 },
		"store":    func(s *Site) { s.Store, s.Cache = 5*Gigabit, false },
		"arrival":  func(s *Site) { s.Link = 100 * Gigabit },
		"machines": func(s *Site) { s.MachineLink, s.Arrival = Gigabit/1000, Arrival{} },
	} {
		t.Run(name, func(t *testing.T) {
			s := DefaultSite()
			change(&s)
			wire, _ := s.perByte()
			b := s.Bound()
			bound := max(b.Link, b.CPU, b.Arrival)
			switch name {
			case "store":
				bound = seconds(float64(b.Bytes) * wire[1] / s.Store)
			case "machines":
				bound = seconds((float64(s.Loader)*wire[0] + float64(s.Image)*wire[1]) / s.MachineLink)
			}
			r := simulate(t, s)
			if got := last(r); got < bound || got > bound+bound/50+2*time.Second {
				t.Errorf("the last machine was up after %v; the bound is %v", got, bound)
			}
			if r.Count.Loader != int64(s.Machines)*s.Loader || r.Count.Image != int64(s.Machines)*s.Image || r.Count.Resumes+r.Count.Reloads+r.Count.Cycles != 0 {
				t.Errorf("%+v", r.Count)
			}
			if want := b.CPU.Seconds() * s.Cores; r.CPU.Seconds() < want*0.999 || r.CPU.Seconds() > want*1.001 {
				t.Errorf("%v of CPU, want %.1f s", r.CPU, want)
			}
		})
	}
}

// With a cache each replica reads each file once. A replica that returns with an empty cache reads
// it once more. Without a cache each machine reads each file.
func TestSimulateStore(t *testing.T) {
	s := DefaultSite()
	s.Replicas, s.Link = 3, 100*Gigabit
	s.Machines = 1000
	if r := simulate(t, s); r.StoreReads != 6 || r.StoreBytes != 3*(s.Loader+s.Image) {
		t.Errorf("%d reads, %d bytes", r.StoreReads, r.StoreBytes)
	}
	s.LostAt, s.BackAt = 100*time.Second, 200*time.Second
	if r := simulate(t, s); r.StoreReads != 8 || r.StoreBytes != 4*(s.Loader+s.Image) {
		t.Errorf("%d reads, %d bytes after a loss", r.StoreReads, r.StoreBytes)
	}
	s.LostAt, s.BackAt, s.Cache = 0, 0, false
	r := simulate(t, s)
	if all := int64(1000) * (s.Loader + s.Image); r.StoreReads != 2000 || r.StoreBytes < all-all/1e6 || r.StoreBytes > all+all/1e6 {
		t.Errorf("%d reads, %d bytes without a cache", r.StoreReads, r.StoreBytes)
	}
}

// A lost replica delays its machines by Firmware.Silence. All of them come up, and no byte of an
// image is sent twice.
func TestSimulateLostReplica(t *testing.T) {
	s := DefaultSite()
	s.Replicas, s.Arrival, s.Plan.Lost = 3, Arrival{}, 0.01
	s.LostAt, s.BackAt = time.Minute, 2*time.Minute
	r := simulate(t, s)
	if len(r.Up) != s.Machines || r.Count.Resumes < s.Machines/4 || r.Count.Cycles < 50 {
		t.Errorf("%d up, %+v", len(r.Up), r.Count)
	}
	whole := s
	whole.LostAt, whole.BackAt = 0, 0
	if with, without := last(r), last(simulate(t, whole)); with <= without {
		t.Errorf("%v with a loss, and %v without", with, without)
	}
	s.Replicas, s.BackAt, s.Plan.Lost = 1, 0, 0
	r = simulate(t, s)
	if r.Failed == 0 || r.Failures[errSilent] != r.Failed {
		t.Errorf("the only replica is lost, and %d machines failed: %v", r.Failed, r.Failures)
	}
}

// The same seed gives the same run, to the nanosecond.
func TestSimulateRepeats(t *testing.T) {
	s := DefaultSite()
	s.Arrival, s.Replicas, s.LostAt, s.BackAt, s.Plan.Lost = Arrival{Rate: 50}, 4, time.Minute, 2*time.Minute, 0.02
	a, b := simulate(t, s), simulate(t, s)
	s.Plan.Seed++
	if c := simulate(t, s); !slices.Equal(a.Up, b.Up) || slices.Equal(a.Up, c.Up) {
		t.Error("the seed does not say all, or nothing")
	}
}
