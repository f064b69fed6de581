package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
)

// -n removes nothing and prints what rm without it removes; -v prints what was.
func TestRmDryRunAndVerbose(t *testing.T) {
	l := startLab(t, patternFiles())
	for _, c := range []struct{ args, want string }{
		{"lab:g/**/*.gz", "g/a.gz g/s/c.gz g/s/t/d.gz"},
		{"-r lab:g/s", "g/s/ g/s/c.gz g/s/t/ g/s/t/d.gz g/s/t/e.txt"},
		{"-r lab:g/**", "g/a.gz g/s/ g/s/c.gz g/s/t/ g/s/t/d.gz g/s/t/e.txt"},
		{"-f lab:none lab:x.gz", "x.gz"},
	} {
		out := l.must(append([]string{"rm", "-n"}, strings.Fields(c.args)...)...)
		if got := strings.Join(strings.Fields(out), " "); got != c.want {
			t.Errorf("rm -n %s prints %q, want %q", c.args, got, c.want)
		}
	}
	if code, out, msg := l.haul("rm", "-n", "lab:g/s"); code != exitRefused || out != "" || !strings.Contains(msg, "-r") {
		t.Errorf("a directory without -r: exit code %d, %q, %s", code, out, msg)
	}
	if code, _, _ := l.haul("rm", "-n", "lab:none"); code != exitNotFound {
		t.Errorf("rm -n of a name that does not exist: exit code %d", code)
	}
	wantTree(t, l.dir, patternFiles())
	if out := l.must("rm", "-rv", "lab:g/s", "lab:x.gz"); out != "g/s/\nx.gz\n" {
		t.Errorf("rm -v prints %q", out)
	}
	wantTree(t, l.dir, map[string]string{"g/a.gz": "1", "g/.b.gz": "2", "g/.h/f.gz": "6"})
}

func TestRmDryRunHTTP(t *testing.T) {
	w := startWeb(t, patternFiles())
	if out := w.must("rm", "-n", w.URL+"/g/**/*.gz", w.URL+"/x.gz"); out != "g/a.gz\ng/s/c.gz\ng/s/t/d.gz\nx.gz\n" {
		t.Errorf("rm -n prints %q", out)
	}
	wantTree(t, w.dir, patternFiles())
	if code, out, msg := haul(t, "rm", "-n", w.URL+"/g/*"); code != exitRefused || out != "g/a.gz\n" || !strings.Contains(msg, "g/s: is a directory") {
		t.Errorf("a directory among them: exit code %d, %q, %s", code, out, msg)
	}
	if out := w.must("rm", "-v", w.URL+"/x.gz", w.URL+"/g/**/[ac].gz"); out != "x.gz\ng/a.gz\ng/s/c.gz\n" {
		t.Errorf("rm -v prints %q", out)
	}
	wantTree(t, w.dir, map[string]string{"g/.b.gz": "2", "g/s/t/d.gz": "4", "g/s/t/e.txt": "5", "g/.h/f.gz": "6"})
}

// Over HTTP, a name that begins with a tilde is that of a file. The root is refused there too.
func TestRmTildeHTTP(t *testing.T) {
	w := startWeb(t, map[string]string{"~alice": "1", "kept": "2"})
	if out := w.must("rm", "-v", w.URL+"/~alice"); out != "~alice\n" {
		t.Errorf("rm -v prints %q", out)
	}
	if code, _, msg := haul(t, "rm", w.URL+"/"); code != exitUsage || !strings.Contains(msg, "refused, as are /") {
		t.Errorf("the root: exit code %d, %s", code, msg)
	}
	wantTree(t, w.dir, map[string]string{"kept": "2"})
}

// endless has a directory in each directory, and a file that is sorted before it.
type endless struct{ store.Tree }

func (e endless) OpenDir(ctx context.Context, _ string) (store.Entries, error) {
	return e.Tree.OpenDir(ctx, ".")
}

// interrupter ends a command that has printed some lines.
type interrupter struct {
	bytes.Buffer
	lines int
	stop  context.CancelFunc
}

func (i *interrupter) Write(b []byte) (int, error) {
	if i.lines--; i.lines == 0 {
		i.stop()
	}
	return i.Buffer.Write(b)
}

// rm -n prints names as they come: it keeps none of those that a server makes up.
func TestRmDryRunWithoutEnd(t *testing.T) {
	l := startLabWith(t, labOptions{tree: func(t store.Tree) store.Tree { return endless{t} }}, map[string]string{"d/f": "", "d-": ""})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := interrupter{lines: 6, stop: stop}
	root := newRoot()
	root.SetArgs(l.args("rm", "-rn", "lab:d"))
	root.SetOut(&out)
	root.SetErr(io.Discard)
	if _, err := root.ExecuteContextC(ctx); !errors.Is(err, context.Canceled) || !strings.HasPrefix(out.String(), "d/\nd/d-\nd/d/\nd/d/d-\n") {
		t.Errorf("prints %.100q, %v", out.String(), err)
	}
}
