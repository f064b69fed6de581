package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/haul-project/haul/bench/guard"
	"github.com/haul-project/haul/bench/suite/record"
)

func TestGuardRefuses(t *testing.T) {
	haul := standInHaul(t)
	for _, tt := range []struct{ args, want string }{
		{"guard", "before"},
		{"guard --before " + haul + " --only (", "--only"},
		{"guard --before " + haul + " --only nothing-of-this", "none of the loads"},
		{"guard --before none --bin " + t.TempDir(), "there is no haul to measure"},
	} {
		if _, err := bench(t, strings.Fields(tt.args)...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want %q", tt.args, err, tt.want)
		}
	}
}

// A guard that could measure nothing does not pass.
func TestGuardThatMeasuresNothing(t *testing.T) {
	haul := standInHaul(t)
	out, err := bench(t, "guard", "--bin", strings.TrimSuffix(haul, "/haul"), "--before", haul, "--only", "^many-100-10kB$")
	if err == nil || !strings.Contains(err.Error(), "2 figures had fewer than 5 rounds") || !strings.Contains(out, "not tried: many-100-10kB haul before: ") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Where the time ended before loads that may be worse had all rounds, a guard does not pass.
func TestGuardThatIsNotCertain(t *testing.T) {
	for _, tt := range []struct {
		rounds int
		before float64 // CPU time for a packet, which is 2 now
		want   string
	}{
		{guard.Rounds, 1, "not certain, as there were fewer than 12 rounds: a: server us/packet +100.0 %"},
		{guard.MoreRounds - 1, 1, "not certain, as there were fewer than 12 rounds: a: server us/packet +100.0 %"},
		{guard.MoreRounds, 1, "worse than before"},
		{guard.Rounds, 4, ""},
	} {
		var lines []record.Line
		for round := range tt.rounds {
			for build, cpu := range map[string]float64{"haul": 2, "haul before": tt.before} {
				lines = append(lines, record.Line{
					Scenario: record.Scenario{Name: "a"}, Contender: record.Contender{Name: build}, Round: round,
					Figures: map[record.Metric]float64{record.Rate: 1, record.DataPackets: 1, record.CPUPerPacket: cpu},
				})
			}
		}
		var out bytes.Buffer
		f := guardFlags{stdout: &out}
		err := f.judge(guard.Compare(lines), lines)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%d rounds, %v before and 2 now: %v, want %q\n%s", tt.rounds, tt.before, err, tt.want, &out)
		}
	}
}
