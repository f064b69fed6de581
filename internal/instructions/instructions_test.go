//go:build linux

package instructions

import (
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/haul-project/haul/internal/race"
)

var update = flag.Bool("update", false, "rewrite the counts in testdata")

const (
	countsFile = "testdata/counts.txt"
	moduleRoot = "../.."

	// tolerance is the largest relative difference from the recorded count that the test accepts.
	// noise is a bit more than the relative difference between two runs of the same program: -update
	// does not record smaller changes.
	tolerance = 0.03
	noise     = 0.01

	// tries is how many times a path is counted before the test fails. One count may be too high,
	// because the Go runtime's monitor depends on the clock, and has more to do on a machine that
	// stalls.
	tries = 3

	// Each benchmark runs twice: once with 1/warmupShare of the operations, and once with all. The
	// difference between the two counts does not include what happens before the first operation.
	warmupShare = 50
)

// A hotPath is a benchmark, with the recorded number of instructions of one operation.
type hotPath struct {
	instructions int
	operations   int // number of operations to count
	pkg, name    string
}

// A record is the content of countsFile.
type record struct {
	comment   []string
	toolchain string
	paths     []hotPath
}

func readRecord(t *testing.T) record {
	t.Helper()
	text, err := os.ReadFile(countsFile)
	if err != nil {
		t.Fatal(err)
	}
	var r record
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			r.comment = append(r.comment, line)
			continue
		}
		if toolchain, ok := strings.CutPrefix(line, "toolchain "); ok {
			r.toolchain = toolchain
			continue
		}
		var p hotPath
		if _, err := fmt.Sscan(line, &p.instructions, &p.operations, &p.pkg, &p.name); err != nil {
			t.Fatalf("%s: %q: %v", countsFile, line, err)
		}
		r.paths = append(r.paths, p)
	}
	return r
}

func (r record) write(t *testing.T) {
	t.Helper()
	text := strings.Join(r.comment, "\n") + "\ntoolchain " + toolchain() + "\n"
	for _, p := range r.paths {
		text += fmt.Sprintf("%7d %7d  %-22s %s\n", p.instructions, p.operations, p.pkg, p.name)
	}
	if err := os.WriteFile(countsFile, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// toolchain identifies the compiler and the platform. The counts depend on these as well as on the
// code, because another compiler generates other instructions.
func toolchain() string { return runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH }

func TestInstructions(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the tests of several packages")
	}
	if race.Enabled {
		t.Skip("counts programs without the race detector, as the test without it does")
	}
	r := readRecord(t)
	if r.toolchain != toolchain() && !*update {
		t.Skipf("nothing is compared: the counts are those of %s, and this is %s", r.toolchain, toolchain())
	}
	valgrind := needValgrind(t)
	programs := make(map[string]string) // by package
	for _, p := range r.paths {
		if programs[p.pkg] == "" {
			programs[p.pkg] = build(t, p.pkg)
		}
	}
	t.Run("paths", func(t *testing.T) {
		for i := range r.paths {
			p := &r.paths[i]
			t.Run(p.pkg+"."+p.name, func(t *testing.T) {
				t.Parallel()
				p.check(t, valgrind, programs[p.pkg])
			})
		}
	})
	if *update && !t.Failed() {
		r.write(t)
	}
}

// check compares the count of a path with the recorded one. With -update it records the count instead.
func (p *hotPath) check(t *testing.T, valgrind, program string) {
	for try := 1; ; try++ {
		got := p.count(t, valgrind, program)
		change := got/float64(p.instructions) - 1
		if *update {
			if math.Abs(change) > noise {
				p.instructions = int(math.Round(got))
			}
			return
		}
		t.Logf("%.0f instructions, %d recorded, %+.2f %%", got, p.instructions, 100*change)
		if math.Abs(change) <= tolerance {
			return
		}
		if try == tries {
			t.Errorf("an operation takes %.0f instructions, and %d are recorded in %s: %+.1f %%\n"+
				"if the change is meant: go test ./internal/instructions -update", got, p.instructions, countsFile, 100*change)
			return
		}
	}
}

// count returns the number of instructions that one operation takes.
func (p *hotPath) count(t *testing.T, valgrind, program string) float64 {
	t.Helper()
	few := max(p.operations/warmupShare, 1)
	return (p.run(t, valgrind, program, p.operations) - p.run(t, valgrind, program, few)) / float64(p.operations-few)
}

var collected = regexp.MustCompile(`Collected : ([0-9]+)`)

// run executes the benchmark with the given number of operations, and returns the number of
// instructions that the whole program takes.
func (p *hotPath) run(t *testing.T, valgrind, program string, operations int) float64 {
	t.Helper()
	pattern := "^" + strings.ReplaceAll(p.name, "/", "$/^") + "$"
	cmd := exec.CommandContext(t.Context(), valgrind, "--tool=callgrind", "--callgrind-out-file="+os.DevNull,
		program, "-test.run=^$", "-test.bench="+pattern, "-test.benchtime="+strconv.Itoa(operations)+"x")
	cmd.Dir = filepath.Join(moduleRoot, p.pkg)
	// To get the same count on every machine, run without the garbage collector, without signals for
	// preemption, with one thread for Go code, and without instructions that some processors lack,
	// such as those that copy 32 bytes.
	cmd.Env = []string{"GOGC=off", "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1,cpu.all=off", "TMPDIR=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "ns/op") {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	m := collected.FindSubmatch(out)
	if m == nil {
		t.Fatalf("%v: no count in its output:\n%s", cmd, out)
	}
	n, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// build compiles the tests of a package, regardless of the flags of this test.
func build(t *testing.T, pkg string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), filepath.Base(pkg)+".test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-ldflags=-w", "-o", program, "./"+pkg)
	cmd.Dir = moduleRoot
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOAMD64=v1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return program
}

// needValgrind returns the path of valgrind.
func needValgrind(t *testing.T) string {
	t.Helper()
	valgrind, err := exec.LookPath("valgrind")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("valgrind is not installed")
		}
		t.Skip("valgrind is not installed")
	}
	return valgrind
}

// The recorded counts must be those of the toolchain in go.mod. Otherwise TestInstructions would skip
// the comparison, and nobody would notice.
func TestCountsAreOfTheModulesToolchain(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(moduleRoot, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(mod)
	if line == nil {
		t.Fatal("go.mod has no go line")
	}
	if r := readRecord(t); !strings.HasPrefix(r.toolchain, "go"+string(line[1])+" ") {
		t.Errorf("%s is of %s, and go.mod of go%s: go test ./internal/instructions -update records new counts", countsFile, r.toolchain, line[1])
	}
}
