package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/bench/link"
)

func TestMain(m *testing.M) {
	link.Main()
	os.Exit(m.Run())
}

// bench runs the command line and returns what it printed.
func bench(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	var out, said bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&said)
	err = root.ExecuteContext(t.Context())
	return out.String(), err
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

func TestRunRefuses(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, tt := range []struct{ args, want string }{
		{"run --quick --smoke", "quick smoke"},
		{"run --only nothing-of-this", "--list"},
		{"run --only (", "--only"},
		{"run --smoke --haul " + none, "haul"},
		{"run --smoke --out " + none + "/x", "--out"},
	} {
		if _, err := bench(t, strings.Fields(tt.args)...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want %q", tt.args, err, tt.want)
		}
	}
}
