//go:build unix

package main

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A process that is killed in the middle of a get --continue leaves nothing under
// the file's name, and the next run goes on where it was, as far as the disk has
// it for certain.
func TestHTTPKilled(t *testing.T) {
	const size = 64 << 20
	content := make([]byte, size)
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := 0; i < size; i += 8 {
		n := random.Uint64()
		for j := range 8 {
			content[i+j] = byte(n >> (8 * j))
		}
	}
	l := startWeb(t, nil)
	l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(&countingWriter{w, l}, r, "", time.Unix(1, 0), bytes.NewReader(content))
		return true
	})
	here := t.TempDir()
	c := runChild(t, childOptions{}, "get", "--continue", "--limit", "30M", l.URL+"/big", here)
	// The record of what is on the disk for certain is written every so often.
	var first []byte
	awaitHidden(t, here, ".mark", func(b []byte) bool {
		if first == nil && len(b) > 0 {
			first = b
		}
		return !bytes.Equal(b, first)
	})
	c.signal(syscall.SIGKILL)
	c.wantExit(-1)
	if _, err := os.Stat(filepath.Join(here, "big")); err == nil {
		t.Error("it has its name, and is not whole")
	}
	before := l.sentBytes()
	code, _, msg := haul(t, "get", "--continue", l.URL+"/big", here)
	if code != 0 || !strings.Contains(msg, "were there before") {
		t.Errorf("the next run: exit code %d, %s", code, msg)
	}
	if again := l.sentBytes() - before; again >= size {
		t.Errorf("the next run was sent %d bytes, and the file has %d", again, size)
	}
	wantFile(t, filepath.Join(here, "big"), string(content))
	if left, _ := filepath.Glob(filepath.Join(here, ".haul*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
