package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// -t, -S, -r and -1 are as ls has them; of -t and -S the last counts.
func TestLsOrder(t *testing.T) {
	files := map[string]string{"a": "333", "b": "1", "c": "22", "d": "22", ".dot": ""}
	ages := map[string]int{"a": 1, "b": 3, "c": 2, "d": 2}
	l, w := startLab(t, files), startWeb(t, files)
	for _, dir := range []string{l.dir, w.dir} {
		for name, hours := range ages {
			at := time.Date(2026, 1, 2, 12-hours, 0, 0, 0, time.UTC)
			if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	for flags, want := range map[string]string{
		"-1": "a b c d", "-r": "d c b a", "-t": "a c d b", "-tr": "b d c a", "-S": "a c d b", "-Sr": "b d c a",
		"-tS": "a c d b", "-St": "a c d b", "-a1r": "d c b a .dot", "-by-time": "", "--by-time": "a c d b", "--by-size --reverse": "b d c a", "--one": "a b c d",
	} {
		if want == "" { // one dash begins single letters
			if code, _, msg := l.haul("ls", flags, "lab:"); code != exitUsage {
				t.Errorf("ls %s: exit code %d, %s", flags, code, msg)
			}
			continue
		}
		args := append([]string{"ls"}, strings.Fields(flags)...)
		if got := strings.Join(strings.Fields(l.must(append(args, "lab:")...)), " "); got != want {
			t.Errorf("ls %s over SFTP: %q, want %q", flags, got, want)
		}
		if got := strings.Join(strings.Fields(w.must(append(args, w.URL+"/")...)), " "); flags != "-a1r" && got != want {
			t.Errorf("ls %s over HTTP: %q, want %q", flags, got, want)
		}
	}
	at := time.Date(2026, 1, 2, 13, 0, 0, 0, time.UTC)
	if err := os.Chtimes(filepath.Join(l.dir, "b"), at, at); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[string]string{"-tS": "a c d b", "-St": "b a c d"} {
		if got := strings.Join(strings.Fields(l.must("ls", flags, "lab:")), " "); got != want {
			t.Errorf("ls %s: %q, want %q", flags, got, want)
		}
	}
}

// By size, directories come behind all files, over SFTP and HTTP.
func TestLsSizeOfDirectories(t *testing.T) {
	files := map[string]string{"b/x": "", "d/x": "", "z": "", "c": "22", "large": strings.Repeat("x", 10_000)}
	l, w := startLab(t, files), startWeb(t, files)
	for flag, want := range map[string]string{"-S": "large c z b d", "-Sr": "d b z c large"} {
		for over, got := range map[string]string{"SFTP": l.must("ls", flag, "lab:"), "HTTP": w.must("ls", flag, w.URL+"/")} {
			if got := strings.Join(strings.Fields(got), " "); got != want {
				t.Errorf("ls %s over %s: %q, want %q", flag, over, got, want)
			}
		}
	}
}

// ls -l over HTTP has the columns that HTTP can fill, and -h writes sizes short.
func TestLsLongHTTP(t *testing.T) {
	w := startWeb(t, map[string]string{"d/x": "", "file": strings.Repeat("x", 2000)})
	const date = `[A-Z][a-z]{2} [ \d]\d (\d\d:\d\d| \d{4})`
	if out, want := w.must("ls", "-l", w.URL+"/"), `^d    - +`+date+` d\n- 2000 `+date+` file\n$`; !regexp.MustCompile(want).MatchString(out) {
		t.Errorf("ls -l: %q, want %s", out, want)
	}
	if out, want := w.must("ls", "-lh", w.URL+"/file"), `^- 2.0K `+date+` /?file\n$`; !regexp.MustCompile(want).MatchString(out) {
		t.Errorf("ls -lh: %q, want %s", out, want)
	}
}

// ls -l asks for the sizes and times that a page of names lacks, and prints a dash for
// those that the server does not say.
func TestLsLongHTML(t *testing.T) {
	heads := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/":
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, `<title>Index of /</title><a href="a">a</a> <a href="b">b</a> <a href="d/">d/</a>`)
		case r.Method == http.MethodHead && r.URL.Path == "/a":
			heads++
			w.Header().Set("Last-Modified", "Fri, 02 Jan 2015 03:04:05 GMT")
			w.Header().Set("Content-Length", "7")
		default:
			http.Error(w, "no", http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	if code, out, msg := haul(t, "ls", s.URL+"/"); code != 0 || out != "a\nb\nd\n" || heads != 0 {
		t.Errorf("ls: exit code %d, %q, %s; %d HEADs", code, out, msg, heads)
	}
	changed := time.Date(2015, 1, 2, 3, 4, 5, 0, time.UTC).Local().Format("Jan _2  2006")
	want := fmt.Sprintf("- 7 %s a\n- - %12s b\nd - %12s d\n", changed, "-", "-")
	if code, out, msg := haul(t, "ls", "-l", s.URL+"/"); code != 0 || out != want || heads != 1 {
		t.Errorf("ls -l: exit code %d, %q, %s; want %q and a HEAD, not %d", code, out, msg, want, heads)
	}
}
