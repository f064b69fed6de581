package web_test

import (
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/web"
)

// wantNames checks the names in a directory, including temporary files.
func wantNames(t testing.TB, path string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, want) {
		t.Errorf("the directory holds %q, want %q", names, want)
	}
}

// While one part is under way, another one is refused as locked.
func TestPutPartsBusy(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the store keeps uploads where there are locks")
	}
	st, _ := dir(t, nil)
	h := &web.Handler{Store: st, Access: web.AccessOverwrite}
	h.Started = func(*web.Exchange) {
		h2 := &web.Handler{Store: st, Access: web.AccessOverwrite}
		a := ask(t, h2, "PUT /f", "", "Content-Range: bytes */20")
		a.want(t, http.StatusLocked, "*")
		a.wantField(t, "Retry-After", "1")
	}
	ask(t, h, "PUT /f", "0123456789", "Content-Range: bytes 0-9/20").want(t, 202, "*")
}

// RFC 9110 §14.4, and the additional rules for uploads.
func TestPutBadParts(t *testing.T) {
	h := &web.Handler{Store: mem(t, nil), Access: web.AccessOverwrite, MaxUpload: 1 << 20}
	for _, field := range []string{
		"", "bytes", "bytes ", "bytes 0-3", "bytes 0-3/", "bytes 0-3/*", "bytes */*", "bytes 0-3/3", "bytes 3-0/4", "bytes 0-3/0",
		"bytes -3/4", "bytes 0-/4", "bytes a-b/c", "lines 0-3/4", "bytes=0-3/4", "bytes 0-2/4", "bytes 0-4/5", "bytes */4",
		"bytes 0-3/99999999999999999999", "bytes +0-3/4", "bytes 0 -3/4", "bytes 0-3/4 ",
	} {
		a := ask(t, h, "PUT /f", "abcd", "Content-Range: "+field)
		if a.status != http.StatusBadRequest {
			t.Errorf("%q: %d %s", field, a.status, a.body)
		}
	}
	ask(t, h, "PUT /f", "abcd", "Content-Range: bytes 0-3/4", "Content-Range: bytes 0-3/4").want(t, 400, "*")
	ask(t, h, "PUT /f", "abcd", "Content-Range: bytes 0-3/4", "Upload-Source: "+strings.Repeat("x", 1000)).want(t, 400, "*")
	ask(t, h, "PUT /f", "abcd", "Content-Range: bytes 0-3/2000000").want(t, 413, "*")
	// Content without a length must arrive completely.
	s := serve(t, h)
	for body, status := range map[string]int{"abc": 400, "abcde": 400, "abcd": 201} {
		r, err := http.NewRequestWithContext(t.Context(), "PUT", s.URL+"/f", chunked{strings.NewReader(body)})
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Range", "bytes 0-3/4")
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != status && body != "abcd" || body == "abcd" && resp.StatusCode >= 300 {
			t.Errorf("%q: %d", body, resp.StatusCode)
		}
	}
}
