package guard

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/haul-project/haul/bench/suite"
	"github.com/haul-project/haul/bench/suite/record"
)

func repeated(n int, changes ...float64) []float64 { return slices.Repeat(changes, n) }

func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		what    string
		changes []float64
		cost    bool
		want    Verdict
	}{
		{"nothing measured", nil, true, Unknown},
		{"four rounds", repeated(4, 0.5), true, Unknown},
		{"five rounds", repeated(5, 0.05), true, PerhapsWorse},
		{"five rounds, more throughput", repeated(5, 0.05), false, PerhapsBetter},
		{"eleven rounds, less throughput", repeated(MoreRounds-1, -0.05), false, PerhapsWorse},
		{"twelve rounds", repeated(MoreRounds, 0.05), true, Worse},
		{"twelve rounds, less CPU time", repeated(MoreRounds, -0.05), true, Better},
		{"twelve rounds, more throughput", repeated(MoreRounds, 0.05), false, Better},
		{"twelve rounds, less throughput", repeated(MoreRounds, -0.05), false, Worse},
		{"a small change, each time", repeated(MoreRounds, 0.02), true, Same},
		{"one round of five is on the other side", append(repeated(4, 0.5), -0.001), true, Same},
		{"one of twelve", append(repeated(MoreRounds-1, 0.5), -0.001), true, Same},
		{"one is neither", append(repeated(MoreRounds-1, 0.5), 0), true, Same},
		{"outliers do not move the median", append(repeated(8, 0.01), repeated(4, 3)...), true, Same},
	} {
		if got := (&Figure{Changes: tt.changes, cost: tt.cost}).Verdict(); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.what, got, tt.want)
		}
	}
}

// Equal builds are reported as seldom as the comment of the package says, even with large noise
// and one disturbed round in ten. A build that is slower by more than the noise is reported.
func TestNoise(t *testing.T) {
	const runs, figures = 2000, 36
	r := rand.New(rand.NewPCG(1, 2))
	figure := func() float64 {
		f := 1 + 0.05*r.NormFloat64()
		if r.IntN(10) == 0 {
			f *= 1 + 2*r.Float64()
		}
		return max(f, 0.1)
	}
	named := func(slower float64) bool {
		f := Figure{cost: true}
		for range MoreRounds {
			if f.Changes = append(f.Changes, slower*figure()/figure()-1); len(f.Changes) == Rounds && f.Verdict() == Same {
				return false
			}
		}
		return f.Verdict() != Same
	}
	wrong, right := 0, 0
	for range runs {
		for range figures {
			if named(1) {
				wrong++
				break
			}
		}
		if named(1.3) {
			right++
		}
	}
	t.Logf("of %d runs, equal builds differ in %d, and one that is 30 %% slower is named in %d", runs, wrong, right)
	if wrong*40 > runs {
		t.Errorf("equal builds differ in %d of %d runs", wrong, runs)
	}
	if right < runs/4 {
		t.Errorf("a build that is 30 %% slower is named in %d of %d runs", right, runs)
	}
}

// line returns a round of a build; figures are the speed, and the CPU time of the server and of
// the client.
func line(load, build string, round int, figures ...float64) record.Line {
	l := record.Line{Scenario: record.Scenario{Name: load}, Contender: record.Contender{Name: build}, Round: round, Figures: map[record.Metric]float64{
		record.Rate: figures[0], record.CPUPerPacket: figures[1], record.DataPackets: 1,
	}}
	if len(figures) > 2 {
		l.Scenario.Protocol = record.SFTP
		l.Figures[record.ClientCPUPerGB] = figures[2]
	}
	return l
}

func TestCompare(t *testing.T) {
	var lines []record.Line
	for round := range MoreRounds {
		lines = append(lines, line("a", "haul", round, 100, 2.2), line("a", "haul before", round, 101, 2))
		if round < Rounds {
			lines = append(lines, line("b", "haul before to haul before", round, 50, 1, 3), line("b", "haul to haul", round, 60, 1, 3))
		}
	}
	loads := []suite.Scenario{
		{Scenario: record.Scenario{Name: "a"}}, {Scenario: record.Scenario{Name: "b", Protocol: record.SFTP}},
		{Scenario: record.Scenario{Name: "c"}}, {Scenario: record.Scenario{Name: "d"}},
	}
	failed := line("b", "haul to haul", 0, 60, 1, 3)
	failed.Error = "no answer"
	lines = append(lines, record.Line{Contender: record.Contender{Name: "haul before portable"}, Round: -1, Absent: "not built"},
		line("c", "haul", 0, 1, 1), line("c", "haul before", 1, 1, 1))
	all := Compare(loads, lines)
	if got := Named(all, Worse); !slices.Equal(got, []string{"a: server us/packet +10.0 %"}) {
		t.Errorf("worse are %q", got)
	}
	if got := Suspects(all); !slices.Equal(got, []string{"b"}) {
		t.Errorf("suspects are %q", got)
	}
	if got := len(Named(all, Unknown)); got != 4 {
		t.Errorf("%d figures were not compared: c has two, and so has d, which has no lines", got)
	}
	var table bytes.Buffer
	if err := Print(&table, all); err != nil {
		t.Fatal(err)
	}
	want := "" +
		"LOAD  FIGURE            BEFORE  NOW  CHANGE   ROUNDS                  VERDICT\n" +
		"a     MB/s              101     100  -1.0 %   12, -1.0 % to -1.0 %\n" +
		"      server us/packet  2       2.2  +10.0 %  12, +10.0 % to +10.0 %  WORSE\n" +
		"b     MB/s              50      60   +20.0 %  5, +20.0 % to +20.0 %   not certain, better\n" +
		"      server us/packet  1       1    +0.0 %   5, +0.0 % to +0.0 %\n" +
		"      client s/GB       3       3    +0.0 %   5, +0.0 % to +0.0 %\n" +
		"c     MB/s                                                            not compared\n" +
		"      server s/GB                                                     not compared\n" +
		"d     MB/s                                                            not compared\n" +
		"      server s/GB                                                     not compared\n"
	if got := table.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for i := range lines {
		if lines[i].Scenario.Name == "b" && lines[i].Round == 0 && lines[i].Contender.Name == "haul to haul" {
			lines[i] = failed
		}
	}
	if got := len(Named(Compare(loads, lines), Unknown)); got != 7 {
		t.Errorf("%d figures were not compared: a round in which a build failed does not count", got)
	}
}
