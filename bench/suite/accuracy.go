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

// An emulated link is measured like a contender, so that a report shows how far the figures over
// it can be trusted.
const (
	emulatorGroup = "emulator"
	emulatorName  = "emulator"
)

// accuracy measures how closely a link matches its profile.
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

// emulator returns the contender of such a scenario.
func emulator() contender {
	return contender{
		Contender: record.Contender{Name: emulatorName},
		start:     func(context.Context, *stage) (process, error) { return noServer{}, nil },
	}
}

// noServer is used if there is no server.
type noServer struct{}

func (noServer) Addr() netip.AddrPort        { return netip.AddrPort{} }
func (noServer) CPU() (time.Duration, error) { return 0, nil }
func (noServer) Memory() int64               { return 0 }
func (noServer) Stop()                       {}

// measureLink is an act: see link.Link.Measure.
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
	for _, b := range a.Bulk { // the last one sends single datagrams, which is hardest
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

// LinkTools returns further programs that can measure a link, if this machine or the peers'
// directory has them.
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
