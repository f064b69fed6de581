//go:build ignore

// Mutants puts bugs into the code, one at a time, and checks that a test notices each. The bugs
// are in scripts/mutants.txt, whose head describes its format. No file of the tree changes: go
// test reads the changed one by -overlay.
//
//	go run scripts/mutants.go [-list FILE] [PATTERN]
//
// PATTERN is a regular expression for the names of the files to put bugs into. The exit code is
// not 0 if less than 95 % of the bugs are noticed, or if a bug no longer fits the code.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	enough = 0.95            // share of the bugs that the tests must notice
	limit  = 2 * time.Minute // time limit for the tests of one bug
	grace  = 3 * time.Minute // added to that limit for the compiler and package testing
)

// A mutant is one bug. It replaces the string `old`, which occurs once in the file, by `new`.
type mutant struct {
	file, pkg, run string
	old, new       string
}

func main() {
	list := flag.String("list", "scripts/mutants.txt", "read the bugs from this `FILE`")
	flag.Parse()
	if err := run(*list, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(list, pattern string) error {
	only, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	all, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", list, err)
	}
	all = slices.DeleteFunc(all, func(m mutant) bool { return !only.MatchString(m.file) })
	if len(all) == 0 {
		return fmt.Errorf("%s has nothing for %q", list, pattern)
	}
	if err := checkTests(all); err != nil {
		return err
	}
	counts := map[string]int{}
	for i, m := range all {
		start := time.Now()
		verdict, detail := m.try()
		counts[verdict]++
		fmt.Printf("%2d %-8s %4.0fs %s: %s  =>  %s%s\n", i+1, verdict, time.Since(start).Seconds(), m.file, m.old, m.new, detail)
	}
	killed := counts["killed"] + counts["timeout"]
	rate := float64(killed) / float64(len(all))
	fmt.Printf("%d of %d noticed (%.0f %%), %d of them by a timeout; %d survived, %d do not fit\n",
		killed, len(all), 100*rate, counts["timeout"], counts["SURVIVED"], counts["BROKEN"])
	switch {
	case counts["BROKEN"] > 0:
		return errors.New("bring the list up to date with the code")
	case rate < enough:
		return fmt.Errorf("fewer than %.0f %% are noticed", 100*enough)
	}
	return nil
}

// parse reads a list of bugs.
func parse(text string) (all []mutant, err error) {
	for n, line := range strings.Split(text, "\n") {
		var last *mutant
		if len(all) > 0 {
			last = &all[len(all)-1]
		}
		switch {
		case line == "" || line[0] == '#':
		case strings.HasPrefix(line, "- ") && last != nil && last.old == "":
			last.old = line[2:]
		case strings.HasPrefix(line, "+ ") && last != nil && last.old != "" && last.new == "":
			last.new = line[2:]
		default:
			f := strings.Fields(line)
			if len(f) == 2 {
				f = append(f, "./"+filepath.ToSlash(filepath.Dir(f[0])))
			}
			if len(f) != 3 {
				return nil, fmt.Errorf("line %d: want FILE TESTS [PACKAGE], or a line that begins with - or +", n+1)
			}
			all = append(all, mutant{file: f[0], run: f[1], pkg: f[2]})
		}
	}
	for _, m := range all {
		if m.old == "" || m.new == "" {
			return nil, fmt.Errorf("%s: a bug without an old or a new text", m.file)
		}
	}
	return all, nil
}

// checkTests runs the tests of all bugs once on the unchanged code: a test that fails there
// cannot notice a bug.
func checkTests(all []mutant) error {
	runs := map[string][]string{}
	for _, m := range all {
		if !slices.Contains(runs[m.pkg], m.run) {
			runs[m.pkg] = append(runs[m.pkg], m.run)
		}
	}
	for pkg, patterns := range runs {
		out, err := test(len(patterns), "-run", "^("+strings.Join(patterns, "|")+")", pkg)
		if err != nil {
			return fmt.Errorf("%s fails without a bug: %w\n%s", pkg, err, out)
		}
	}
	return nil
}

// try runs the tests against the code with the bug, and returns the result.
func (m mutant) try() (verdict, detail string) {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return "BROKEN", ": " + err.Error()
	}
	if n := bytes.Count(text, []byte(m.old)); n != 1 {
		return "BROKEN", fmt.Sprintf(": the old text is there %d times", n)
	}
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "BROKEN", ": " + err.Error()
	}
	defer os.RemoveAll(dir)
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	abs, err := filepath.Abs(m.file)
	if err != nil {
		return "BROKEN", ": " + err.Error()
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {abs: changed}})
	if err == nil {
		err = os.WriteFile(overlay, replace, 0o600)
	}
	if err == nil {
		err = os.WriteFile(changed, bytes.Replace(text, []byte(m.old), []byte(m.new), 1), 0o600)
	}
	if err != nil {
		return "BROKEN", ": " + err.Error()
	}
	out, err := test(1, "-overlay", overlay, "-failfast", "-run", "^("+m.run+")", m.pkg)
	switch {
	case bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")):
		return "BROKEN", ": it does not compile\n" + string(out)
	case bytes.Contains(out, []byte("[no tests to run]")):
		return "BROKEN", ": no test is called " + m.run
	case err == nil:
		return "SURVIVED", ""
	case errors.Is(err, context.DeadlineExceeded) || bytes.Contains(out, []byte("panic: test timed out")):
		return "timeout", ""
	}
	if m := failed.FindSubmatch(out); m != nil {
		detail = "  by " + string(m[1])
	}
	return "killed", detail
}

// failed matches the name of the first failed test.
var failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// test runs go test with the given arguments. Its time limit is enough to run the tests of `runs`
// bugs.
func test(runs int, args ...string) ([]byte, error) {
	tests := time.Duration(runs) * limit
	ctx, cancel := context.WithTimeout(context.Background(), tests+grace)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-vet=off", "-ldflags=-s -w", "-timeout", tests.String()}, args...)...)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return out, err
}
