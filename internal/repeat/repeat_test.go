package repeat

import (
	"strings"
	"testing"
)

// A failing is a testing.TB of a test that fails. It records the output.
type failing struct {
	testing.TB
	cleanups []func()
	printed  []string
}

func (f *failing) Name() string     { return "TestIt/with it's_(odd)_name" }
func (f *failing) Failed() bool     { return true }
func (f *failing) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }
func (f *failing) Log(args ...any)  { f.printed = append(f.printed, args[0].(string)) }

// Each command is printed once, contains the path of this package, and matches only the one test.
func TestOnFailure(t *testing.T) {
	f := &failing{}
	for range 2 {
		OnFailure(f, "-seed=7")
	}
	OnFailure(f)
	for _, c := range f.cleanups {
		c()
	}
	if len(f.printed) != 2 {
		t.Fatalf("printed %q, want two commands", f.printed)
	}
	const begin, run = "repeat it with: go test ./internal/repeat ", `-count 1 -run '^TestIt$/^with it.s_\(odd\)_name$'`
	for i, end := range []string{run + " -seed=7", run} {
		if got := f.printed[i]; !strings.HasPrefix(got, begin) || !strings.HasSuffix(got, end) {
			t.Errorf("got %q, want %s…%s", got, begin, end)
		}
	}
	f.cleanups = nil
	if OnFailure(f); len(f.cleanups) != 1 {
		t.Error("a test that runs again has no command")
	}
}
