package suite

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/bench/suite/record"
)

// inParts runs a scenario that resumes from lines, and returns the content of the file
// afterwards. The run is interrupted after stops measurements; 0 means never.
func inParts(t *testing.T, lines []record.Line, rounds, stops int, a act, names ...string) (all []record.Line, made int) {
	t.Helper()
	here := record.Environment{Commit: "abc", Machine: "CPU"}
	var out bytes.Buffer
	s := Suite{Rounds: rounds, Out: &out, Progress: io.Discard, Done: lines, env: here}
	var why string
	if s.past, why = resumed(lines, here); why != "" {
		t.Fatalf("nothing counts: %s", why)
	}
	s.began = "2026-01-02T03:04:05Z"
	sc := Scenario{
		Scenario: record.Scenario{Name: "made-up", Load: record.Load{Concurrency: 1, Transfers: 1, Size: 1000, Write: true, Loss: 0.01, Seed: 7}, Fresh: true},
		Guess:    time.Second,
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sc.act = func(ctx context.Context, st *stage, warmup bool) (tally, error) {
		if made == stops && stops > 0 {
			cancel()
			return tally{}, ctx.Err()
		}
		made++
		return a(ctx, st, warmup)
	}
	stopped := 0
	var turns []contender
	for _, name := range names {
		turns = append(turns, contender{Contender: record.Contender{Name: name, Build: "0123"}, start: func(context.Context, *stage) (process, error) {
			return &standIn{stopped: &stopped}, nil
		}})
	}
	pt := part{Scenario: sc, turns: turns}
	s.complete(&pt)
	s.todo.add(sc, pt.measurements())
	s.scenario(ctx, pt, t.TempDir())
	return append(lines, readLines(t, &out)...), made
}

// A run in parts makes each measurement once, except in a round that was cut off, which is
// repeated for all contenders.
func TestResume(t *testing.T) {
	var lines []record.Line
	for i, c := range []struct {
		rounds, stops, made int
		names               string
	}{
		{3, 5, 5, "a b c"}, // one round, and two thirds of the next
		{3, 2, 2, "a b c"}, // the same two again
		{3, 0, 6, "a b c"}, // that round, and the last one
		{3, 0, 0, "a b c"},
		{3, 0, 0, "a c"},      // contenders that were measured together with others count as measured
		{5, 0, 6, "a b c"},    // two more rounds
		{5, 0, 20, "a b c d"}, // d has to be compared with all
	} {
		var made int
		lines, made = inParts(t, lines, c.rounds, c.stops, moved, strings.Fields(c.names)...)
		if made != c.made {
			t.Fatalf("part %d made %d measurements, want %d", i, made, c.made)
		}
	}
	for _, l := range lines {
		if l.Run != lines[0].Run || l.Scenario.Seed != 7+uint64(l.Round) {
			t.Fatalf("a line of run %s, round %d, seed %d", l.Run, l.Round, l.Scenario.Seed)
		}
	}
}

// Failures are results: they are not repeated until they succeed, and two are enough across the
// parts of a run.
func TestResumeCountsFailures(t *testing.T) {
	broken := func(context.Context, *stage, bool) (tally, error) { return tally{}, errors.New("no answer") }
	lines, made := inParts(t, nil, 1, 0, broken, "a")
	if made != 1 {
		t.Fatalf("%d made, want 1", made)
	}
	lines, made = inParts(t, lines, 4, 0, broken, "a")
	if made != maxFailures-1 || len(lines) != 4 || !strings.Contains(lines[3].Error, "not tried again") {
		t.Fatalf("%d made and %d lines, want %d and 4", made, len(lines), maxFailures-1)
	}
	if _, made = inParts(t, lines, 4, 0, broken, "a"); made != 0 {
		t.Errorf("%d made of what is on record", made)
	}
}

// Measurements with another method do not count.
func TestResumeWantsTheSame(t *testing.T) {
	whole, _ := inParts(t, nil, 1, 0, moved, "a")
	for name, change := range map[string]func(*record.Line){
		"scenario":  func(l *record.Line) { l.Scenario.Size++ },
		"build":     func(l *record.Line) { l.Contender.Build = "4567" },
		"version":   func(l *record.Line) { l.Contender.Version = "2" },
		"client":    func(l *record.Line) { l.Contender.Client = "curl" },
		"round":     func(l *record.Line) { l.Round = 1 },
		"no result": func(l *record.Line) { l.Round, l.Absent = -1, "not built" },
	} {
		lines := []record.Line{whole[0]}
		change(&lines[0])
		if _, made := inParts(t, lines, 1, 0, moved, "a"); made != 1 {
			t.Errorf("another %s counts", name)
		}
	}
}

func TestResumedRun(t *testing.T) {
	here := record.Environment{Commit: "abc", Machine: "CPU", Cores: 2, MemoryMB: 4096, Kernel: "Linux 6", Go: "go1", Congestion: "cubic", Storage: "ext4", Generator: "0123"}
	at := func(run string, change func(*record.Environment)) record.Line {
		l := record.Line{Run: run, Environment: here, Scenario: record.Scenario{Name: "s"}, Contender: record.Contender{Name: "haul"}}
		if change != nil {
			change(&l.Environment)
		}
		return l
	}
	if p, why := resumed(nil, here); p.began != "" || why != "" {
		t.Errorf("an empty file is resumed: %q, %q", p.began, why)
	}
	// The latest run is resumed, wherever it is in the file.
	for _, lines := range [][]record.Line{{at("1", nil), at("2", nil)}, {at("2", nil), at("1", nil)}} {
		if p, why := resumed(lines, here); p.began != "2" || why != "" || len(p.lines) != 1 {
			t.Errorf("run %q with %d lines, %q", p.began, len(p.lines), why)
		}
	}
	for want, change := range map[string]func(*record.Environment){
		`commit "def", and not "abc"`:         func(e *record.Environment) { e.Commit = "def" },
		`processor "X", and not "CPU"`:        func(e *record.Environment) { e.Machine = "X" },
		`cores "4", and not "2"`:              func(e *record.Environment) { e.Cores = 4 },
		`memory in MB "1", and not "4096"`:    func(e *record.Environment) { e.MemoryMB = 1 },
		`kernel "K", and not "Linux 6"`:       func(e *record.Environment) { e.Kernel = "K" },
		`Go "go2", and not "go1"`:             func(e *record.Environment) { e.Go = "go2" },
		`congestion control "bbr", and not `:  func(e *record.Environment) { e.Congestion = "bbr" },
		`file system "tmpfs", and not "ext4"`: func(e *record.Environment) { e.Storage = "tmpfs" },
		`build of haul "", and not "0123"`:    func(e *record.Environment) { e.Generator = "" },
	} {
		// An equal older run does not help: a report uses the latest one.
		p, why := resumed([]record.Line{at("1", nil), at("2", change)}, here)
		if p.began != "" || !strings.Contains(why, want) {
			t.Errorf("run %q is resumed, %q; want %q", p.began, why, want)
		}
	}
}

// standInHaul returns a program that prints what haul would, and does nothing else.
func standInHaul(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "haul")
	script := "#!/bin/sh\ncase $1 in serve) echo '  --tftp ' ;; version) echo haul test ;; *) exit 1 ;; esac\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPlan(t *testing.T) {
	haul, none := standInHaul(t), t.TempDir()
	s := Suite{Haul: haul, Peers: none, Only: []string{"haul"}, Rounds: 3}
	plan, err := s.Plan([]Scenario{many(10, 10, mB, false), many(20, 20, mB, true)})
	if err != nil {
		t.Fatal(err)
	}
	if plan.Scenarios != 2 || plan.Measurements != 6 || plan.Known != 0 || plan.Time != 6*many(10, 10, mB, false).Guess {
		t.Errorf("%+v", plan)
	}
	// Recorded measurements are not planned.
	lines := []record.Line{}
	for round := range 3 {
		l := s.line(many(10, 10, mB, false), plan.parts[0].turns[0], round)
		l.Figures = map[record.Metric]float64{record.Rate: 1}
		lines = append(lines, l)
	}
	again := Suite{Haul: haul, Peers: none, Only: []string{"haul"}, Rounds: 3, Done: lines}
	plan, err = again.Plan([]Scenario{many(10, 10, mB, false), many(20, 20, mB, true)})
	if err != nil || plan.Scenarios != 1 || plan.Measurements != 3 || plan.Known != 3 || again.began != s.began {
		t.Errorf("%+v of run %s, %v; want 3 of 6 of run %s", plan, again.began, err, s.began)
	}
	// Scenarios with the same name that differ are not part of the same run.
	larger := many(10, 10, mB, false)
	larger.Size *= 2
	older := slices.Clone(lines)
	for i := range older {
		older[i].Contender.Build = "0123"
	}
	for _, c := range []struct {
		scenario Scenario
		lines    []record.Line
		want     string
	}{
		{larger, lines, "its latest run had many-10-1MB as "},
		{many(10, 10, mB, false), older, `its latest run had another haul (version "haul test", build "0123", and not `},
	} {
		again = Suite{Haul: haul, Peers: none, Only: []string{"haul"}, Rounds: 3, Done: c.lines}
		plan, err = again.Plan([]Scenario{c.scenario})
		if err != nil || plan.Known != 0 || plan.Measurements != 3 || !strings.HasPrefix(plan.NewRun, c.want) {
			t.Errorf("%+v, %v; want %q", plan, err, c.want)
		}
	}
	// The tree was built again.
	if err := os.WriteFile(haul, []byte("#!/bin/sh\n# built anew\ncase $1 in serve) echo '  --tftp ' ;; version) echo haul test ;; esac\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	again = Suite{Haul: haul, Peers: none, Only: []string{"haul"}, Rounds: 3, Done: lines}
	plan, err = again.Plan([]Scenario{many(10, 10, mB, false)})
	if err != nil || plan.Measurements != 3 || !strings.Contains(plan.NewRun, "build of haul") {
		t.Errorf("%+v, %v", plan, err)
	}
}

func TestPlanRefuses(t *testing.T) {
	haul, none := standInHaul(t), t.TempDir()
	for _, c := range []struct {
		suite Suite
		want  []string
	}{
		{Suite{Haul: filepath.Join(none, "haul")}, []string{filepath.Join(none, "haul"), "no such file", `"make build" builds it`}},
		{Suite{Haul: haul, Before: filepath.Join(none, "old")}, []string{"--before", "old", "no such file"}},
		{Suite{Haul: haul, Only: []string{"nobody"}}, []string{"--peers", `"nobody"`, "there are haul, "}},
		{Suite{Haul: haul, Only: []string{"rs-tftpd"}}, []string{"nothing to measure", "rs-tftpd is absent", "scripts/install-bench-peers"}},
	} {
		c.suite.Peers = none
		_, err := c.suite.Plan(Full())
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v; want %q", err, want)
			}
		}
	}
}
