package main

import (
	"strings"
	"testing"
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
