//go:build unix

package main

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
)

const killedSize = 64 << 20

// killedContent is what a file has of which a get is killed.
func killedContent(t *testing.T) []byte {
	t.Helper()
	content := make([]byte, killedSize)
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := 0; i < killedSize; i += 8 {
		n := random.Uint64()
		for j := range 8 {
			content[i+j] = byte(n >> (8 * j))
		}
	}
	return content
}

// testKilled checks that a process which is killed in the middle of a get --continue
// leaves nothing under the file's name, and that the next run goes on where it was, as
// far as the disk has it for certain. args completes a command line, and sent returns
// how many bytes of files the server has sent so far.
func testKilled(t *testing.T, content []byte, from string, args func(args ...string) []string, sent func() int64) {
	t.Helper()
	here := t.TempDir()
	killGet(t, here, func(limit string) []string { return args("get", "--continue", "--limit", limit, from, here) })
	if _, err := os.Stat(filepath.Join(here, "big")); err == nil {
		t.Error("it has its name, and is not whole")
	}
	before := sent()
	code, _, msg := haul(t, args("get", "--continue", from, here)...)
	if code != 0 || !strings.Contains(msg, "were there before") {
		t.Errorf("the next run: exit code %d, %s", code, msg)
	}
	if again := sent() - before; again >= killedSize {
		t.Errorf("the next run was sent %d bytes, and the file has %d", again, killedSize)
	}
	wantFile(t, filepath.Join(here, "big"), string(content))
	if left, _ := filepath.Glob(filepath.Join(here, ".haul*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// killGet begins to get a file, and kills that when it is noted for the second time how
// much of it is on the disk for certain. Should it be through before, as the disk takes
// longer for that, it is begun anew, more slowly.
func killGet(t *testing.T, here string, args func(limit string) []string) {
	t.Helper()
	for _, limit := range []string{"30M", "8M", "3M"} {
		c := runChild(t, childOptions{}, args(limit)...)
		var first []byte
		awaitHidden(t, here, ".mark", func(b []byte) bool {
			if first == nil && len(b) > 0 {
				first = b
			}
			return !bytes.Equal(b, first)
		}, c.ended)
		_ = c.cmd.Process.Kill()
		if _, ok := c.stderr.await(func(_ string, ended bool) bool { return ended }); !ok {
			t.Fatal("haul does not end")
		}
		if c.cmd.ProcessState.ExitCode() != 0 {
			c.wantExit(-1)
			return
		}
		if err := os.Remove(filepath.Join(here, "big")); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the get is through before it is noted how much has come")
}

func TestHTTPKilled(t *testing.T) {
	t.Parallel() // it waits most of the time
	content := killedContent(t)
	l := startWeb(t, nil)
	l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(&countingWriter{w, l}, r, "", time.Unix(1, 0), bytes.NewReader(content))
		return true
	})
	testKilled(t, content, l.URL+"/big", func(args ...string) []string { return args }, l.sentBytes)
}

func TestSFTPKilled(t *testing.T) {
	t.Parallel() // it waits most of the time
	content := killedContent(t)
	mem := store.Mem(1 << 30)
	u, err := mem.Create(t.Context(), "big", store.Create{Size: killedSize})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.WriteAt(content, 0); err != nil {
		t.Fatal(err)
	}
	if err := u.Commit(); err != nil {
		t.Fatal(err)
	}
	l := startLabWith(t, labOptions{tree: func(store.Tree) store.Tree { return mem }}, nil)
	testKilled(t, content, "lab:big", l.args, func() int64 { return l.server.Counters().Sent })
}
