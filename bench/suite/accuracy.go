package suite

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"time"

	"github.com/haul-project/haul/bench/link"
	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/suite/record"
)

// The emulator of a link is measured like a contender, so that a report shows how far the figures
// over the link can be trusted.
const (
	emulatorGroup = "emulator"
	emulatorName  = "emulator"
)

// accuracy returns the scenario that measures how closely a link matches its profile.
func accuracy(profile string) Scenario {
	return Scenario{
		Scenario: record.Scenario{
			Name: "emulator-" + profile, Group: emulatorGroup, Link: profile, Fresh: true,
			Title: fmt.Sprintf("the emulator of %s, measured with nothing else on the link", profile),
		},
		Guess: 10 * time.Second,
		act:   measureLink,
	}
}

// emulator returns the only contender of the scenarios that accuracy returns: the emulator of the
// link.
func emulator() contender {
	return contender{
		Contender: record.Contender{Name: emulatorName},
		start:     func(context.Context, *stage) (process, error) { return noServer{}, nil },
	}
}

// noServer takes the place of the server in scenarios without one.
type noServer struct{}

func (noServer) Addr() netip.AddrPort        { return netip.AddrPort{} }
func (noServer) CPU() (time.Duration, error) { return 0, nil }
func (noServer) Memory() int64               { return 0 }
func (noServer) Stop()                       {}

// measureLink is an act that measures the link: see link.Link.Measure.
func measureLink(ctx context.Context, st *stage, _ bool) (tally, error) {
	a, err := st.link.Measure(ctx, LinkTools(st.link, st.suite.Peers))
	if err != nil {
		return tally{}, err
	}
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	t := tally{figures: map[record.Metric]float64{
		record.CycleProfile: ms(a.Want),
		record.CycleP50:     ms(a.Ping.Median),
		record.CycleP99:     ms(a.Ping.P99),
		record.CycleOff:     100 * a.Off(),
	}}
	for _, b := range a.Bulk { // the figures of the last stream remain, which sends single datagrams: the hardest case
		t.figures[record.LinkRate], t.figures[record.LinkRateProfile] = b.Got, b.Want
		t.figures[record.LinkCPU] = b.Share
		t.figures[record.LinkDrops] = float64(b.Failures)
	}
	for metric, tool := range map[record.Metric]link.Tool{record.Ping: a.Echo, record.IPerf3: a.TCP} {
		if tool.Absent == "" {
			t.figures[metric] = tool.Value
		} else {
			t.warnings = append(t.warnings, fmt.Sprintf("%s: %s", metric, tool.Absent))
		}
	}
	return t, nil
}

// LinkTools returns the further programs that can measure a link, as far as this machine or the
// directory of the peers has them.
func LinkTools(l *link.Link, peers string) link.Tools {
	var t link.Tools
	if path, err := exec.LookPath("ping"); err == nil {
		t.Ping = func(ctx context.Context, side link.Side, args ...string) *exec.Cmd {
			return l.Command(ctx, side, path, args...)
		}
	}
	found := peer.Find(peers)
	if tool, ok := found.Tool("iperf3"); ok {
		t.IPerf3 = func(ctx context.Context, side link.Side, args ...string) *exec.Cmd {
			on := func(ctx context.Context, name string, args ...string) *exec.Cmd {
				return l.Command(ctx, side, name, args...)
			}
			return tool.Command(ctx, on, args...)
		}
	}
	return t
}
