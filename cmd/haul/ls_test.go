package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// ls -l requests the sizes and times that an index page lacks, and prints a dash for those that the
// server does not report.
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
