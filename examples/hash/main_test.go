package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// The hash is right even if the connection breaks in the middle. A missing file is an error.
func TestHash(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 300_001)
	broken := false
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/f":
			http.NotFound(w, r)
			return
		case !broken:
			broken = true
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			w.Header().Set("ETag", `"1"`)
			w.Header().Set("Accept-Ranges", "bytes")
			_, _ = w.Write(content[:1_000_000])
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", time.Unix(1e9, 0), bytes.NewReader(content))
	}))
	defer web.Close()
	var out strings.Builder
	err := hashAll(t.Context(), web.URL, []string{"f", "f"}, &out)
	if want := strings.Repeat(fmt.Sprintf("%x  f\n", sha256.Sum256(content)), 2); err != nil || out.String() != want || !broken {
		t.Errorf("%s, %v; want %s", out.String(), err, want)
	}
	if err := hashAll(t.Context(), web.URL, []string{"missing"}, &out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}
