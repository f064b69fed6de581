package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// An uploaded file has the time of its upload. New content of the same size is sent even if the
// server's file seems to be equally old.
func TestHTTPPutSameTime(t *testing.T) {
	l := startWeb(t, nil)
	file := filepath.Join(t.TempDir(), "st")
	at := time.Unix(1_700_000_000, 0)
	for _, content := range []string{"1", "2", "3"} {
		writeFile(t, file, content)
		for _, name := range []string{file, filepath.Join(l.dir, "st")} {
			if err := os.Chtimes(name, at, at); err != nil && name == file {
				t.Fatal(err)
			}
		}
		l.must("put", "--continue", file, l.URL+"/st")
		wantFile(t, filepath.Join(l.dir, "st"), content)
	}
	// A server that can hash recognizes an identical file.
	l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			t.Error("what is there is sent again")
		}
		return false
	})
	l.must("put", "--continue", file, l.URL+"/st")
	l.must("put", "--continue", "--unchanged=hash", file, l.URL+"/st")
}

// A server that does not report what it has, such as one with signed URLs, accepts files.
func TestHTTPPutBlind(t *testing.T) {
	l := startWeb(t, nil)
	l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || r.URL.RawQuery != "signature=s%2Bx" {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	})
	file := filepath.Join(t.TempDir(), "a")
	writeFile(t, file, "aaa")
	l.must("put", file, l.URL+"/b?signature=s%2Bx")
	wantFile(t, filepath.Join(l.dir, "b"), "aaa")
}

// --continue reports when it cannot resume a file, and why.
func TestHTTPNotResumed(t *testing.T) {
	content := strings.Repeat("0123456789abcdef", 2<<20/16)
	l := startWeb(t, nil)
	l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("ETag", `W/"1"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
		return true
	})
	to := filepath.Join(t.TempDir(), "f")
	code, _, msg := haul(t, "get", "--continue", l.URL+"/f", to)
	if want := "note: " + l.URL + "/f is copied from its start: the server does not say which version"; code != 0 || !strings.Contains(msg, want) {
		t.Errorf("exit code %d, no %q in %s", code, want, msg)
	}
	wantFile(t, to, content)
	if _, _, msg := haul(t, "get", l.URL+"/f", to); strings.Contains(msg, "note") {
		t.Errorf("without --continue: %s", msg)
	}
	if _, _, msg := haul(t, "put", "--continue", to, l.URL+"/up"); !strings.Contains(msg, to+" is copied from its start: the target keeps no parts of files") {
		t.Errorf("put: %s", msg)
	}
}

// A file in a content coding that haul did not ask for is a failure, and nothing is written.
func TestGetEncoded(t *testing.T) {
	l := startWeb(t, nil)
	l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Encoding", "br")
		_, _ = w.Write([]byte("coded"))
		return true
	})
	if code, out, msg := haul(t, "get", l.URL+"/coded", "-"); code != exitFailed || out != "" || !strings.Contains(msg, "br") {
		t.Errorf("exit code %d, %q, %s", code, out, msg)
	}
}

// A server may not report a size, and then probe has none to print.
func TestProbeUnknownSize(t *testing.T) {
	l := startWeb(t, nil)
	l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		w.(http.Flusher).Flush()
		return true
	})
	if code, out, msg := haul(t, "probe", l.URL+"/endless"); code != exitFailed || out != "" || !strings.Contains(msg, "does not report the size") {
		t.Errorf("exit code %d, %q, %s", code, out, msg)
	}
}
