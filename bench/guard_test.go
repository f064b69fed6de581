package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/bench/guard"
	"github.com/haul-project/haul/bench/suite"
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

// A guard that could not measure anything does not pass.
func TestGuardThatMeasuresNothing(t *testing.T) {
	haul := standInHaul(t)
	out, err := bench(t, "guard", "--bin", strings.TrimSuffix(haul, "/haul"), "--before", haul, "--only", "^many-100-10kB$")
	if err == nil || !strings.Contains(err.Error(), "2 figures had fewer than 5 rounds") || !strings.Contains(out, "not tried: many-100-10kB haul before: ") {
		t.Errorf("%v\n%s", err, out)
	}
}

// If the time ends before loads that may be worse have had all rounds, the guard does not pass.
func TestGuardThatIsNotCertain(t *testing.T) {
	loads := []suite.Scenario{{Scenario: record.Scenario{Name: "a"}}}
	for _, tt := range []struct {
		rounds int
		before float64 // CPU time of a packet, which is 2 now
		want   string
	}{
		{0, 1, "2 figures had fewer than 5 rounds and were not compared"},
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
		err := f.judge(guard.Compare(loads, lines), lines)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%d rounds, %v before and 2 now: %v, want %q\n%s", tt.rounds, tt.before, err, tt.want, &out)
		}
	}
}

// A build of the last commit is compared with the commit before it, even if files that are not a
// part of it are not committed. A build of uncommitted work is compared with the last commit.
func TestGuardScriptSelectsBase(t *testing.T) {
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "MAKE=true", "BASE=", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	put := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile("../scripts/bench-guard")
	if err != nil {
		t.Fatal(err)
	}
	put("scripts/bench-guard", string(script))
	put(".gitignore", "/bin/\n")
	put("bin/bench", "#!/bin/sh\n")
	put("cmd/main.go", "package main\n")
	run("git", "init", "-q")
	for _, subject := range []string{"first", "second"} {
		run("git", "add", ".")
		run("git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", subject)
	}
	for _, tt := range []struct{ change, base string }{
		{".gitignore", "first"}, // unchanged
		{"bench-1.jsonl", "first"},
		{"README.md", "first"},
		{"cmd/new.go", "second"},
	} {
		put(tt.change, "/bin/\n")
		if out := run("scripts/bench-guard"); !strings.HasPrefix(out, "comparing with ") || !strings.HasSuffix(out, " "+tt.base+"\n") {
			t.Errorf("with a change of %s: %q, want %s", tt.change, out, tt.base)
		}
	}
}
