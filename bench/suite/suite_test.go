package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/bench/suite/record"
)

// haulBinary builds haul once for a test.
func haulBinary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "haul")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/haul")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build haul: %v: %s", err, out)
	}
	return path
}

// programs builds the programs for SFTP and TCP measurements, and returns their directory.
func programs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"haulsftp", "haultcp", "tcpload"} {
		if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, name), "../"+name).CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v: %s", name, err, out)
		}
	}
	return dir
}

// TestSmoke runs one small scenario of each kind. A failure, or a transfer of nothing, is an
// error.
func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	var out, progress bytes.Buffer
	s := Suite{Haul: haulBinary(t), Peers: programs(t), Rounds: 1, Strict: true, Out: &out, Progress: &progress}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	defer cancel()
	plan, err := s.Plan(Smoke())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(ctx, plan); err != nil {
		t.Fatalf("%v\n%s", err, &progress)
	}
	measured := make(map[string]bool)
	for _, l := range readLines(t, &out) {
		if l.Scenario.Name == "" {
			continue // an absent peer
		}
		measured[l.Scenario.Name] = true
		if l.Absent != "" && os.Getenv("CI") == "true" {
			t.Errorf("%s was not tried: %s", l.Scenario.Name, l.Absent)
		}
	}
	for _, sc := range Smoke() {
		if !measured[sc.Name] {
			t.Errorf("no line about %s", sc.Name)
		}
	}
}

func readLines(t *testing.T, r io.Reader) []record.Line {
	t.Helper()
	var lines []record.Line
	for d := json.NewDecoder(r); ; {
		var l record.Line
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return lines
		} else if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
}

// A standIn is a server that uses a millisecond of CPU time each time it is asked.
type standIn struct {
	cpu     time.Duration
	stopped *int
}

func (s *standIn) Addr() netip.AddrPort { return netip.MustParseAddrPort("127.0.0.1:69") }
func (s *standIn) CPU() (time.Duration, error) {
	s.cpu += time.Millisecond
	return s.cpu, nil
}
func (s *standIn) Memory() int64 { return 5e6 }
func (s *standIn) Stop()         { *s.stopped++ }

// play runs a scenario with stand-ins of these names and returns its lines.
func play(ctx context.Context, t *testing.T, rounds int, fresh bool, a act, names ...string) (lines []record.Line, started, stopped int) {
	t.Helper()
	var out bytes.Buffer
	s := Suite{Rounds: rounds, Out: &out, Progress: io.Discard}
	sc := Scenario{
		Scenario: record.Scenario{Name: "made-up", Load: record.Load{Concurrency: 1, Transfers: 1, Size: 1000, Write: true, Seed: 7}, Fresh: fresh},
		act:      a,
	}
	var turns []contender
	for _, name := range names {
		turns = append(turns, contender{Contender: record.Contender{Name: name}, start: func(context.Context, *stage) (process, error) {
			started++
			return &standIn{stopped: &stopped}, nil
		}})
	}
	s.todo.add(sc, rounds*len(turns))
	pt := part{Scenario: sc, turns: turns}
	s.complete(&pt)
	s.scenario(ctx, pt, t.TempDir())
	return readLines(t, &out), started, stopped
}

// moved is an act in which everything succeeds.
func moved(context.Context, *stage, bool) (tally, error) {
	return tally{seconds: 0.5, bytes: 1e6, packets: 2000, figures: map[record.Metric]float64{record.Transfers: 1, record.Failed: 0}}, nil
}

func TestRoundsRotate(t *testing.T) {
	lines, started, stopped := play(t.Context(), t, 3, true, moved, "a", "b", "c")
	var order []string
	for _, l := range lines {
		order = append(order, l.Contender.Name)
	}
	if want := strings.Fields("a b c b c a c a b"); !slices.Equal(order, want) {
		t.Errorf("the order was %q, want %q", order, want)
	}
	if started != 9 || stopped != 9 {
		t.Errorf("%d servers started and %d stopped, want 9", started, stopped)
	}
	if l := lines[3]; l.Round != 1 || l.Scenario.Seed != 8 || l.Format != record.Format {
		t.Errorf("round %d, seed %d, format %d; want 1, 8, %d", l.Round, l.Scenario.Seed, l.Format, record.Format)
	}
}

func TestKeptServers(t *testing.T) {
	_, started, stopped := play(t.Context(), t, 3, false, moved, "a", "b")
	if started != 2 || stopped != 2 {
		t.Errorf("%d servers started and %d stopped, want 2", started, stopped)
	}
}

func TestFigures(t *testing.T) {
	lines, _, _ := play(t.Context(), t, 1, true, moved, "a")
	for m, want := range map[record.Metric]float64{
		record.Rate: 2, record.PacketRate: 4000, record.CPUPerPacket: 0.5, record.CPUPerGB: 1,
		record.GigabitsPerCore: 8, record.Memory: 5, record.ServerCPU: 0.001,
	} {
		if got := lines[0].Figures[m]; got < want*0.999 || got > want*1.001 {
			t.Errorf("%s is %v, want %v", m, got, want)
		}
	}
	if err := Sane(lines[0]); err != nil {
		t.Error(err)
	}
}

// A contender that fails gets a line each time, but does not cost its waiting time every time.
func TestFailuresAreLines(t *testing.T) {
	calls := 0
	lines, _, stopped := play(t.Context(), t, 5, true, func(context.Context, *stage, bool) (tally, error) {
		calls++
		return tally{}, errors.New("no answer")
	}, "a")
	if len(lines) != 5 || calls != maxFailures || stopped != maxFailures {
		t.Errorf("%d lines after %d calls and %d stops, want 5 after %d", len(lines), calls, stopped, maxFailures)
	}
	for _, l := range lines {
		if l.Error == "" || Sane(l) == nil {
			t.Errorf("round %d has no error", l.Round)
		}
	}
}

// A measurement that an interrupt cuts off does not count as a result of the contender.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	lines, started, stopped := play(ctx, t, 5, true, func(ctx context.Context, st *stage, w bool) (tally, error) {
		if n++; n == 3 {
			cancel()
			return tally{}, ctx.Err()
		}
		return moved(ctx, st, w)
	}, "a", "b")
	if len(lines) != 2 || started != 3 || stopped != 3 {
		t.Errorf("%d lines, %d started, %d stopped; want 2, 3, 3", len(lines), started, stopped)
	}
}

// A client that the terminal's interrupt ends before the suite notices it would be recorded as
// failed.
func TestClientsGetNoInterrupt(t *testing.T) {
	st := stage{suite: &Suite{}}
	cmd := st.command(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	group, err := syscall.Getpgid(cmd.Process.Pid)
	if err != nil || group == syscall.Getpgrp() {
		t.Errorf("it is in process group %d with the suite, %v", group, err)
	}
}

// An interrupt while files are made does not count as an absence of the contenders.
func TestInterruptedPreparation(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	slow := filepath.Join(t.TempDir(), "haul")
	if err := os.WriteFile(slow, []byte("#!/bin/sh\nexec sleep 60\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s := Suite{Haul: slow, Rounds: 1, Out: &out, Progress: io.Discard}
	sc := Scenario{Scenario: record.Scenario{Name: "made-up", Load: record.Load{Transfers: 1, Size: 1000}}}
	turns := []contender{{Contender: record.Contender{Name: "a"}}}
	s.todo.add(sc, 1)
	pt := part{Scenario: sc, turns: turns}
	s.complete(&pt)
	s.scenario(ctx, pt, t.TempDir())
	if out.Len() > 0 {
		t.Errorf("it is on record: %s", &out)
	}
}

func TestSane(t *testing.T) {
	good := map[record.Metric]float64{record.Rate: 1, record.DataPackets: 1}
	with := func(m record.Metric, v float64) map[record.Metric]float64 {
		return map[record.Metric]float64{record.Rate: 1, record.DataPackets: 1, m: v}
	}
	for _, tt := range []struct {
		line record.Line
		sane bool
	}{
		{record.Line{Figures: good}, true},
		{record.Line{Absent: "not built"}, true},
		{record.Line{Error: "died"}, false},
		{record.Line{Figures: with(record.Failed, 1)}, false},
		{record.Line{Figures: with(record.Rate, 0)}, false},
		{record.Line{Figures: with(record.DataPackets, 0)}, false},
		{record.Line{Figures: with(record.DataPackets, 0), Contender: record.Contender{Client: "curl"}}, true},
	} {
		if err := Sane(tt.line); (err == nil) != tt.sane {
			t.Errorf("%+v: %v", tt.line, err)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestResultsCannotBeWritten(t *testing.T) {
	s := Suite{Out: brokenPipe{}, Progress: io.Discard}
	s.write(record.Line{})
	if err := s.verdict(t.Context()); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("%v", err)
	}
}
