// Package repeat is for tests. It prints the command that runs a failed test alone.
package repeat

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
)

var asked sync.Map // testing.TB and arguments of running tests

// OnFailure makes a failing test print the command that repeats it. args are further arguments of
// the command, such as the seed. Helpers that many tests use call it. Each command is printed only
// once for a test.
func OnFailure(t testing.TB, args ...string) {
	type key struct {
		t    testing.TB
		args string
	}
	k := key{t, strings.Join(args, " ")}
	if _, twice := asked.LoadOrStore(k, true); twice {
		return
	}
	t.Cleanup(func() {
		asked.Delete(k)
		if t.Failed() {
			t.Log("repeat it with: " + Command(t.Name(), args...))
		}
	})
}

// Command returns the command that runs one test of this package, from the module's root.
func Command(test string, args ...string) string {
	levels := strings.Split(test, "/")
	for i, l := range levels {
		levels[i] = "^" + strings.ReplaceAll(regexp.QuoteMeta(l), "'", ".") + "$"
	}
	command := []string{"go test ./" + directory()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "-race" && s.Value == "true":
				command = append(command, "-race")
			case s.Key == "-tags":
				command = append(command, "-tags "+s.Value)
			}
		}
	}
	command = append(command, "-count 1 -run '"+strings.Join(levels, "/")+"'")
	return strings.Join(append(command, args...), " ")
}

// directory returns this package's directory, in which tests run.
func directory() string {
	here, err := os.Getwd()
	if err != nil {
		return "..."
	}
	for root := here; ; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			name, _ := filepath.Rel(root, here)
			return filepath.ToSlash(name)
		}
		if root == filepath.Dir(root) {
			return "..."
		}
	}
}
