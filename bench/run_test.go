package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/bench/link"
	"github.com/haul-project/haul/bench/suite/record"
)

// asBench makes this test binary behave as bench.
const asBench = "HAUL_TEST_AS_BENCH"

func TestMain(m *testing.M) {
	link.Main()
	if os.Getenv(asBench) != "" {
		main()
	}
	os.Exit(m.Run())
}

// bench runs the command line and returns its output.
func bench(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	stdout, _, err = benchIn(t.Context(), args...)
	return stdout, err
}

// benchIn does so in a context, and also returns standard error.
func benchIn(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	var out, said bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&said)
	err = root.ExecuteContext(ctx)
	return out.String(), said.String(), err
}

func TestRunLists(t *testing.T) {
	all, err := bench(t, "run", "--list")
	if err != nil {
		t.Fatal(err)
	}
	some, err := bench(t, "run", "--list", "--only", "^doc1")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(all, "links-vpn+loss-w128 ") || !strings.HasPrefix(all, some) || strings.Count(some, "\n") != 4 {
		t.Errorf("of\n%s--only ^doc1 selects\n%s", all, some)
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

// A mistake is reported before anything is measured, with advice, and leaves no file behind.
func TestRunRefuses(t *testing.T) {
	dir := t.TempDir()
	file, none := filepath.Join(dir, "x.jsonl"), filepath.Join(dir, "none")
	haul := standInHaul(t)
	other := filepath.Join(t.TempDir(), "other.jsonl")
	if err := os.WriteFile(other, []byte("{\"format\":1}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, want string }{
		{"run --quick --smoke", "quick smoke"},
		{"run --out a --resume b", "out resume"},
		{"run --only nothing-of-this", "--list"},
		{"run --rounds -1", "--rounds -1: must be 0 or more"},
		{"run --only (", "--only"},
		{"run --haul " + none + " --out " + file, "there is no haul to measure at " + none},
		{"run --haul " + none + " --out " + file, `"make build" builds it`},
		{"run --bin " + dir + " --resume " + file, filepath.Join(dir, "haul")},
		{"run --smoke --haul " + none, "make build"},
		{"run --haul " + haul + " --before " + none + " --out " + file, "--before"},
		{"run --haul " + haul + " --peers haul,dnsmask --out " + file, `--peers: no contender is called "dnsmask"; there are haul, `},
		{"run --haul " + haul + " --peers dnsmask --resume " + file, `"dnsmask"`},
		{"run --haul " + haul + " --smoke --peers haul --out " + none + "/x", "--out"},
		{"run --haul " + haul + " --smoke --peers haul --resume " + none + "/x", "--resume"},
		{"run --haul " + haul + " --resume " + other, "name a new file"},
	} {
		if _, err := bench(t, strings.Fields(tt.args)...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want %q", tt.args, err, tt.want)
		}
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: it left a file behind (%v)", tt.args, err)
		}
	}
}

// A run announces its duration before it begins, and how to shorten it.
func TestRunAnnounces(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.jsonl")
	over, cancel := context.WithCancel(t.Context())
	cancel() // before anything was measured
	_, said, err := benchIn(over, "run", "--haul", standInHaul(t), "--peers", "haul", "--only", "^doc1-download$", "--rounds", "120", "--out", file)
	if exitCode(err) != exitInterrupted || !strings.Contains(err.Error(), "results so far are kept") {
		t.Errorf("exit code %d, %v", exitCode(err), err)
	}
	for _, want := range []string{
		"bench: 1 scenario, 120 measurements, about 4 min\n",
		"bench: results go to " + file + " one by one; Ctrl-C ends the run early and keeps them\n",
		"bench: nothing was measured, so there is no " + file + "\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q was not said:\n%s", want, said)
		}
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty file is left (%v)", err)
	}
	// A file that existed before stays, whatever it contains.
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, said, _ = benchIn(over, "run", "--quick", "--haul", standInHaul(t), "--peers", "haul", "--out", file)
	if _, err := os.Stat(file); err != nil || !strings.Contains(said, ", and 5 min at the most\n") {
		t.Errorf("%v, %s", err, said)
	}
}

func TestRoughly(t *testing.T) {
	for d, want := range map[time.Duration]string{
		4 * time.Second: "4 s", 89 * time.Second: "89 s", 100 * time.Second: "2 min", 89 * time.Minute: "89 min",
		90 * time.Minute: "1 h 30 min", 130 * time.Minute: "2 h 10 min", 25 * time.Hour: "25 h 0 min",
	} {
		if got := roughly(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// An interrupted run keeps its results, reports that, and resumes where it ended: no measurement
// is made twice.
func TestRunInParts(t *testing.T) {
	if testing.Short() {
		t.Skip("builds haul and measures")
	}
	dir := t.TempDir()
	haul, file := filepath.Join(dir, "haul"), filepath.Join(dir, "x.jsonl")
	build := exec.Command("go", "build", "-o", haul, "./cmd/haul")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build haul: %v: %s", err, out)
	}
	args := []string{"run", "--smoke", "--only", "^doc1-download$", "--peers", "haul", "--haul", haul, "--bin", dir, "--resume", file, "--rounds"}

	p := startBench(t, append(args, "1000")...)
	var first []record.Line
	for range 1200 { // two minutes; it takes seconds
		if first, _, _ = record.ReadSoFar(file); len(first) > 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	code, said := p.end(), p.stderr.String()
	if code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
	for _, want := range []string{
		"bench: 1 scenario, 1000 measurements, about ",
		"bench: the results are in " + file,
		"bench: with --resume " + file,
		"bench: ended early, results so far are kept: interrupt",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q was not said:\n%s", want, said)
		}
	}
	first, _, err := record.ReadSoFar(file)
	if err != nil || len(first) == 0 {
		t.Fatalf("%d results are kept, %v", len(first), err)
	}

	// This is the state after a kill in the middle of a line.
	cut, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = cut.WriteString(`{"format":2,"run":"20`)
	if err := errors.Join(err, cut.Close()); err != nil {
		t.Fatal(err)
	}
	rounds := len(first) + 1
	_, said, err = benchIn(t.Context(), append(args, strconv.Itoa(rounds))...)
	if err != nil || !strings.Contains(said, "1 measurement, about ") {
		t.Fatalf("%v\n%s", err, said)
	}
	all, err := record.Read(file)
	if err != nil || len(all) != rounds {
		t.Fatalf("%d lines, %v; want %d", len(all), err, rounds)
	}
	for round, l := range all {
		if l.Round != round || l.Run != all[0].Run || l.Error != "" {
			t.Errorf("line %d is of round %d and run %s: %s", round, l.Round, l.Run, l.Error)
		}
	}
	_, said, err = benchIn(t.Context(), append(args, strconv.Itoa(rounds))...)
	if err != nil || !strings.Contains(said, "nothing is left to measure") {
		t.Errorf("%v\n%s", err, said)
	}
}

// A report is not written over its own results.
func TestReportSparesResults(t *testing.T) {
	results := filepath.Join(t.TempDir(), "results.jsonl")
	const line = "{\"format\":2}\n"
	if err := os.WriteFile(results, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--md", "--html"} {
		c := reportCommand()
		c.SetArgs([]string{results, flag, results})
		c.SetOut(io.Discard)
		c.SetErr(io.Discard)
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), "written over") {
			t.Errorf("%s: %v", flag, err)
		}
	}
	if b, err := os.ReadFile(results); err != nil || string(b) != line {
		t.Errorf("the results are now %q, %v", b, err)
	}
}

// A report of a file that is not a results file, or a chart without data, fails with an
// explanation.
func TestReportRefuses(t *testing.T) {
	dir := t.TempDir()
	long, results := filepath.Join(dir, "long"), filepath.Join(dir, "results")
	for path, text := range map[string][]byte{long: make([]byte, 2<<20), results: []byte("{\"format\":2}\n")} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ args, want string }{
		{"report " + long, "so these are no results"},
		{"report " + results + " --charts " + dir, "nothing that there is a chart of"},
	} {
		if _, err := bench(t, strings.Fields(tt.args)...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want %q", tt.args, err, tt.want)
		}
	}
}
