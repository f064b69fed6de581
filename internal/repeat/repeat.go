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

var asked sync.Map // the keys of OnFailure for running tests: the testing.TB and the arguments

// OnFailure makes a test print the command that repeats it, if it fails. args are further arguments
// of the command, such as the seed. A test may call OnFailure several times, for example in several
// helpers: each command is printed only once.
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

// Command returns the command that runs one test of the current package. It has to be run in the
// module's root directory.
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

// directory returns the directory of the package under test, in which tests run, relative to the
// module's root directory. It returns "..." if it finds no module.
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
