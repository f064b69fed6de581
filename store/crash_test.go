package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
)

// The contents a crashed upload may leave under its name.
var (
	crashOld = strings.Repeat("old ", 1000)
	crashNew = strings.Repeat("NEWER", 2000)
)

// TestCrash kills a process that uploads, ahead of each of its system calls
// in turn. What is in memory then is lost, but not what the kernel has: it is
// a crash of the process, not of the machine.
func TestCrash(t *testing.T) {
	if arg := os.Getenv(childEnv); arg != "" {
		crashChild(t, arg)
		return
	}
	for _, kind := range []string{"replace", "create", "exclusive"} {
		t.Run(kind, func(t *testing.T) { testCrash(t, kind) })
	}
}

func testCrash(t *testing.T, kind string) {
	const fewest = 10 // system calls in an upload
	for k := 1; ; k++ {
		dir := t.TempDir()
		old := ""
		if kind == "replace" {
			old = crashOld
			writeFile(t, dir, "f", old)
		}
		out, err := child(t, fmt.Sprintf("%s %d %s", kind, k, dir)).CombinedOutput()
		if strings.Contains(string(out), "--- FAIL") { // not killed
			t.Fatalf("killed before call %d: %v\n%s", k, err, out)
		}
		survived := err == nil
		got, _ := os.ReadFile(filepath.Join(dir, "f"))
		if s := string(got); s != crashNew && (survived || s != old) {
			t.Errorf("killed before call %d, f holds %d bytes, neither old nor new", k, len(s))
		}
		if _, err := dirAt(t, dir).Sweep(t.Context()); err != nil {
			t.Error(err)
		}
		wantNoTemps(t, dir)
		if survived {
			if k <= fewest {
				t.Errorf("an upload was only %d calls", k-1)
			}
			return
		}
	}
}

// crashChild uploads, and kills itself ahead of its kth system call.
func crashChild(t *testing.T, arg string) {
	kind, rest, _ := strings.Cut(arg, " ")
	var k int
	if _, err := fmt.Sscan(rest, &k); err != nil {
		t.Fatal(err)
	}
	_, dir, _ := strings.Cut(rest, " ")
	d := dirAt(t, dir)
	d.Before(func(string) error {
		if k--; k == 0 {
			killSelf(t)
		}
		return nil
	})
	u := begin(t, d, "f", store.Create{Size: int64(len(crashNew)), Exclusive: kind == "exclusive"})
	for off := 0; off < len(crashNew); off += 4000 {
		if _, err := u.WriteAt([]byte(crashNew[off:min(off+4000, len(crashNew))]), int64(off)); err != nil {
			t.Fatal(err)
		}
	}
	if err := u.Truncate(int64(len(crashNew))); err != nil {
		t.Fatal(err)
	}
	if err := u.Commit(); err != nil {
		t.Fatal(err)
	}
}

// killSelf ends this process without any goodbye.
func killSelf(t *testing.T) {
	p, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	select {}
}
