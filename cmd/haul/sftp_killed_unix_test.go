//go:build unix

package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/haul-project/haul/store"
)

// A process that is killed in the middle of a get --continue leaves nothing under
// the file's name, and the next run goes on where it was, as far as the disk has
// it for certain.
func TestSFTPKilled(t *testing.T) {
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
	mem := store.Mem(1 << 30)
	u, err := mem.Create(t.Context(), "big", store.Create{Size: size})
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
	here := t.TempDir()
	c := runChild(t, childOptions{}, l.args("get", "--continue", "--limit", "30M", "lab:big", here)...)
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
	before := l.server.Counters().Sent
	code, _, msg := l.haul("get", "--continue", "lab:big", here)
	if code != 0 || !strings.Contains(msg, "were there before") {
		t.Errorf("the next run: exit code %d, %s", code, msg)
	}
	if again := l.server.Counters().Sent - before; again >= size {
		t.Errorf("the next run read %d bytes, and the file has %d", again, size)
	}
	wantFile(t, filepath.Join(here, "big"), string(content))
	if left, _ := filepath.Glob(filepath.Join(here, ".haul*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
