package suite

import (
	"context"
	"fmt"
	"maps"
	"time"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/bench/suite/record"
)

// A disturbance is something else that the server has to do. It returns once it
// has begun, and its stop returns how much there was of it.
type disturbance func(ctx context.Context, st *stage) (stop func() extent, err error)

// extent is how much of a disturbance there was: packets or requests, and what
// became of it where that is not as wished.
type extent struct {
	events  float64
	warning string
}

// takesHold is how long a disturbance has before latencies count.
const takesHold = 500 * time.Millisecond

// besidePeers are one of each kind: a loop, a process for each transfer, and
// haul.
var besidePeers = []string{"haul", "tftpd-hpa", "dnsmasq"}

// Small downloads that are measured beside something else: many enough for a
// 99th percentile, few enough to leave most of the server to the rest.
const (
	besideRate   = 200.0 // a second
	besideSize   = 10 * kB
	besideAtOnce = 200 // at the same time, before they are counted as late
)

// besides is what small downloads have to wait for, alone and beside what may
// hold a server up.
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

// besideOf is the act of making the load while a disturbance lasts.
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

// ownCPU is the CPU time of this process, in which some disturbances run.
func ownCPU() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
