package cache

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

const childEnv = "HAUL_CACHE_CHILD"

// TestKilled kills a process that fetches, stores and removes blocks, at random moments. The next
// process finds only complete blocks, counts everything that is there, and reads the right bytes.
func TestKilled(t *testing.T) {
	if dir := os.Getenv(childEnv); dir != "" {
		keepReading(t, dir)
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for lines := range 4 {
		cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), childEnv+"="+dir, "GORACE=atexit_sleep_ms=0")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for s := bufio.NewScanner(out); lines >= 0 && s.Scan(); lines-- {
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if n := used(t, dir); n > worldSize {
			t.Errorf("%d bytes are on the disk, %d are the most", n, worldSize)
		}
		r, err := Verify(t.Context(), dir, func(o Object, b int64, err error) { t.Errorf("block %d of %+v: %v", b, o, err) }, func(name string, _ bool) { t.Error(name) })
		if err != nil {
			t.Errorf("Verify = %+v, %v", r, err)
		}
		c := openCache(t, Config{Dir: dir})
		if n := used(t, dir); n > c.Stats().Held {
			t.Errorf("%d bytes are there, %d are counted", n, c.Stats().Held)
		}
		l := newLab()
		for i := range 10 {
			wantFile(t, c.Store("lab", l), fmt.Sprint(i), l.put(fmt.Sprint(i), sizeOf(i)))
		}
		if st := c.Stats(); st.Corrupt > 0 {
			t.Errorf("%+v", st)
		}
		_ = c.Close()
		if _, err := Clear(t.Context(), dir, func(name string, _ bool) { t.Error(name) }); err != nil {
			t.Error(err)
		}
	}
}

func sizeOf(i int) int64 { return int64(i) * 200_000 }

// keepReading reads files that have more blocks than fit into the cache, until it is killed.
func keepReading(t *testing.T, dir string) {
	c := openCache(t, Config{Dir: dir})
	c.cfg.Size = worldSize
	l := newLab()
	for round := 0; ; round++ {
		s := c.Store(fmt.Sprint("lab", round%2), l)
		if round%2 == 0 {
			s = c.Store("lab", l)
		}
		for i := range 10 {
			wantFile(t, s, fmt.Sprint(i), l.put(fmt.Sprint(i), sizeOf(i)))
		}
		fmt.Println("read")
	}
}
