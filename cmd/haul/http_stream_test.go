package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// A copy to a stream ends if the file is replaced, since written data cannot be taken back.
// Everything written has one version.
func TestHTTPGetReplacedToStream(t *testing.T) {
	t.Parallel()        // it waits most of the time
	const cut = 3 << 20 // more than one read
	before, after := strings.Repeat("before\n", 3*cut/7), strings.Repeat("after!\n", 3*cut/7)
	whole := func(tag, content string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			if tag != "" {
				w.Header().Set("ETag", tag)
			}
			_, _ = w.Write([]byte(content))
		}
	}
	part := func(tag, content string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			var first, last int
			if n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &first, &last); n != 2 {
				t.Errorf("asked for %q", r.Header.Get("Range"))
				return
			}
			last = min(last, len(content)-1)
			w.Header().Set("ETag", tag)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(content)))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write([]byte(content[first : last+1]))
		}
	}
	for name, test := range map[string]struct {
		sent int
		then func(http.ResponseWriter, *http.Request)
		says string // "" if everything is written
	}{
		"the same, as a part":      {cut, part(`"1"`, before), ""},
		"the same, as a whole":     {cut, whole(`"1"`, before), ""},
		"another, as a part":       {cut, part(`"2"`, after), "bytes of what it was before have gone to standard output"},
		"another, as a whole":      {cut, whole(`"2"`, after), "discard them and run it again"},
		"another, shorter":         {cut, whole(`"2"`, after[:cut]), "or fetch to a file"},
		"a whole without a tag":    {cut, whole("", after), "the file has changed on the server"},
		"a weak tag of that name":  {cut, whole(`W/"1"`, after), "the file has changed on the server"},
		"another, before a byte":   {0, part(`"2"`, after), "nothing has gone to standard output: run it again"},
		"the same, before a byte":  {0, part(`"1"`, before), ""},
		"another, with less of it": {cut, part(`"2"`, after[:2*cut]), "the file has changed on the server"},
	} {
		l := startWeb(t, map[string]string{"f": ""})
		var asked atomic.Int64
		l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || r.URL.Path != "/f" {
				return false
			}
			if asked.Add(1) > 1 {
				test.then(w, r)
				return true
			}
			w.Header().Set("ETag", `"1"`)
			w.Header().Set("Accept-Ranges", "bytes")
			w.Header().Set("Content-Length", fmt.Sprint(len(before)))
			_, _ = w.Write([]byte(before[:test.sent]))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		code, out, msg := haul(t, "get", l.URL+"/f", "-")
		switch {
		case test.says == "" && (code != 0 || out != before):
			t.Errorf("%s: exit code %d with %d bytes, %s", name, code, len(out), msg)
		case test.says != "" && (code != exitFailed || !strings.Contains(msg, test.says)):
			t.Errorf("%s: exit code %d, %s; want %q", name, code, msg, test.says)
		case !strings.HasPrefix(before, out):
			t.Errorf("%s: two versions are mixed in %d bytes", name, len(out))
		case test.says != "" && asked.Load() != 2:
			t.Errorf("%s: it was asked for %d times", name, asked.Load())
		}
	}
}
