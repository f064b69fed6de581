package suite

import (
	"context"
	"fmt"
	"maps"
	"time"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/bench/suite/record"
)

// A disturbance is a function that begins other work for the server. The function `stop` ends that
// work, and returns how much of it the server has done.
type disturbance func(ctx context.Context, st *stage) (stop func() extent, err error)

// extent is the amount of a disturbance, in packets or requests, with a warning if there was a
// problem.
type extent struct {
	events  float64
	warning string
}

// takesHold is how long a disturbance runs before latencies are measured.
const takesHold = 500 * time.Millisecond

// besidePeers names the servers that are measured: haul, one with a process for each transfer, and
// one with a loop.
var besidePeers = []string{"haul", "tftpd-hpa", "dnsmasq"}

// These constants describe the small downloads that are measured while the server does other work.
// They are enough for a 99th percentile, and so few that most of the server's time is left for the
// other work.
const (
	besideRate   = 200.0 // downloads begun per second
	besideSize   = 10 * kB
	besideAtOnce = 200 // largest number of downloads at the same time; further ones begin late
)

// besides returns the scenarios that measure the delays of small downloads, alone and during other
// work that may block a server.
func besides(length time.Duration) []Scenario {
	var all []Scenario
	for _, b := range []struct {
		name, title string
		disturb     disturbance
	}{
		{"nothing", "alone", nil},
		{coldFiles, fmt.Sprintf("beside %d downloads of files that are not cached, from a disk held to %d MB/s", coldClients, coldRate/mB), cold},
		{"slow", fmt.Sprintf("beside %d clients that take one block a second", slowClients), slow},
		{"flood", fmt.Sprintf("beside %d requests a second for a file that is not there", floodRate), flood},
		{"windows", fmt.Sprintf("beside %g downloads of %s a second, windowsize 64", windowsRate, sizeName(windowsSize)), windowed},
	} {
		all = append(all, Scenario{
			Scenario: record.Scenario{
				Name: "beside-" + b.name, Group: "beside", Beside: b.name, Fresh: true, Warmups: 20,
				Title: fmt.Sprintf("%g downloads of %s a second, lock-step, %s", besideRate, sizeName(besideSize), b.title),
				Load: record.Load{Concurrency: besideAtOnce, Transfers: int(besideRate * length.Seconds()),
					Size: besideSize, NoOptions: true, Rate: besideRate},
			},
			Who: who{names: besidePeers}, Guess: length + 2*time.Second,
			act: besideOf(b.disturb),
		})
	}
	return all
}

// besideOf returns an act that makes the scenario's load during a disturbance, or alone if
// `disturb` is nil.
func besideOf(disturb disturbance) act {
	return func(ctx context.Context, st *stage, warmup bool) (tally, error) {
		load := st.sc.Load
		if warmup {
			load.Transfers, load.Rate = st.sc.Warmups, 0
		}
		if warmup || disturb == nil {
			return st.generate(ctx, load)
		}
		stop, err := disturb(ctx, st)
		if err != nil {
			return tally{}, fmt.Errorf("beside %s: %w", st.sc.Beside, err)
		}
		time.Sleep(takesHold)
		began, cpu := time.Now(), ownCPU()
		t, err := st.generate(ctx, load)
		seconds, spent := time.Since(began).Seconds(), ownCPU()-cpu
		e := stop()
		if err != nil {
			return tally{}, err
		}
		maps.Copy(t.figures, map[record.Metric]float64{
			record.BesideRate: e.events / (seconds + takesHold.Seconds()),
			record.BesideCPU:  spent.Seconds() / seconds,
		})
		if e.warning != "" {
			t.warnings = append(t.warnings, e.warning)
		}
		return t, nil
	}
}

// ownCPU returns the CPU time of this process, in which some disturbances run.
func ownCPU() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
