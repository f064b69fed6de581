package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// A server that wants to be left alone for a while gets its way, and who waits is
// told why: once, and not with -q.
func TestHTTPWaits(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		l := startWeb(t, map[string]string{"a": "aaa"})
		var asked atomic.Int32
		l.setHook(func(w http.ResponseWriter, _ *http.Request) bool {
			if asked.Add(1) > 2 {
				return false
			}
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		})
		here, args := t.TempDir(), []string{"get", l.URL + "/a"}
		if quiet {
			args = append(args, "-q")
		}
		code, _, msg := haul(t, append(args, here)...)
		want := 1
		if quiet {
			want = 0
		}
		if code != 0 || strings.Count(msg, "answers 429 Too Many Requests; haul waits") != want {
			t.Errorf("quiet %v: exit code %d, %s", quiet, code, msg)
		}
		wantFile(t, filepath.Join(here, "a"), "aaa")
	}
}
