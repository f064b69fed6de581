package localdir_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/haul-project/haul/store"
)

// These are the contents that a crashed upload may leave under its name.
var (
	crashOld = strings.Repeat("old ", 1000)
	crashNew = strings.Repeat("NEWER", 2000)
)

// crashKinds lists the uploads that crash, with the system calls of each that change something. A
// kill before a call is the same as a kill after the call before it. So, together with a kill after
// the last call, these are all moments that can differ.
var crashKinds = []struct {
	name  string
	calls string
}{
	{"replace", "create lock space write write write truncate truncate chmod sync rename syncdir"},
	{"create", "create lock space write write write truncate truncate chmod sync rename syncdir"},
	{"unannounced", "create lock write write write truncate truncate chmod sync rename syncdir"},
	{"exclusive", "create lock space write write write truncate truncate chmod sync link syncdir remove"},
	{"nolinks", "create lock space write write write truncate truncate chmod sync link rename syncdir"},
}

// TestCrash kills a process that uploads, before each of its system calls in turn, and after the
// last one. The process's memory is lost then, but not the kernel's: it is a crash of the process,
// not of the machine.
func TestCrash(t *testing.T) {
	if arg := os.Getenv(childEnv); arg != "" {
		crashChild(t, arg)
		return
	}
	for _, kind := range crashKinds {
		t.Run(kind.name, func(t *testing.T) {
			calls := append(strings.Fields(kind.calls), "end")
			for k := range calls {
				testCrash(t, kind.name, calls, k)
			}
		})
	}
}

// testCrash kills an upload before call number k.
func testCrash(t *testing.T, kind string, calls []string, k int) {
	dir := t.TempDir()
	want := "" // no file
	if kind == "replace" {
		want = crashOld
		writeFile(t, dir, "f", want)
	}
	out, err := child(t, fmt.Sprintf("%s %d %s", kind, k+1, dir)).CombinedOutput()
	if err == nil || strings.Contains(string(out), "--- FAIL") { // the process was not killed
		t.Fatalf("not killed before %s: %v\n%s", calls[k], err, out)
	}
	if at := "killed before " + calls[k] + "\n"; !strings.Contains(string(out), at) {
		t.Errorf("want %q, got\n%s", at, out)
	}
	named := slices.Contains(calls[:k], "rename") || slices.Contains(calls[:k], "link") && kind != "nolinks"
	if named {
		want = crashNew
	}
	got, err := os.ReadFile(filepath.Join(dir, "f"))
	if string(got) != want || want == "" && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("killed before %s, f holds %d bytes %.12q, %v, want %d bytes %.12q", calls[k], len(got), got, err, len(want), want)
	}
	d := dirAt(t, dir)
	if entries, err := d.ReadDir(t.Context(), "."); err != nil || len(entries) > 1 {
		t.Errorf("killed before %s, the store shows %v, %v", calls[k], entries, err)
	}
	left := len(temps(t, dir))
	if removed, err := d.Sweep(t.Context()); err != nil || removed != left {
		t.Errorf("killed before %s, Sweep = %d, %v, want %d", calls[k], removed, err, left)
	}
	wantNoTemps(t, dir)
	if err := upload(t, d, "f", "next", store.Create{}); err != nil {
		t.Errorf("killed before %s, the next upload: %v", calls[k], err)
	}
	wantFile(t, dir, "f", "next")
}

// crashChild uploads, and kills itself before its kth system call.
func crashChild(t *testing.T, arg string) {
	kind, rest, _ := strings.Cut(arg, " ")
	var k int
	if _, err := fmt.Sscan(rest, &k); err != nil {
		t.Fatal(err)
	}
	_, dir, _ := strings.Cut(rest, " ")
	d := dirAt(t, dir)
	ahead := func(call string) error {
		if k--; k == 0 {
			fmt.Println("killed before", call)
			killSelf(t)
		}
		if call == "link" && kind == "nolinks" {
			return syscall.EPERM
		}
		return nil
	}
	d.Before(ahead)
	c := store.Create{Size: int64(len(crashNew)), Exclusive: kind == "exclusive" || kind == "nolinks"}
	if kind == "unannounced" {
		c.Size = 0
	}
	u := begin(t, d, "f", c)
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
	_ = ahead("end")
	t.Errorf("%d calls more than expected", k)
}

// killSelf kills this process.
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

// killAfter runs the test in another process, which gets dir. It kills that process when it has
// printed line the given number of times.
func killAfter(t *testing.T, dir, line string, times int) {
	t.Helper()
	cmd := child(t, dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(out); times > 0 && s.Scan(); {
		if s.Text() == line {
			times--
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
}

// TestCrashAnytime kills a process that replaces a file over and over, at a random moment.
func TestCrashAnytime(t *testing.T) {
	const size = 100_000
	if dir := os.Getenv(childEnv); dir != "" {
		d := dirAt(t, dir)
		for v := byte(1); ; v++ {
			if err := upload(t, d, "f", strings.Repeat(string('a'+rune(v%26)), size), store.Create{}); err != nil {
				t.Fatal(err)
			}
			fmt.Println("replaced")
		}
	}
	for lines := range 5 {
		dir := t.TempDir()
		writeFile(t, dir, "f", strings.Repeat("old", size))
		killAfter(t, dir, "replaced", lines)
		got, err := os.ReadFile(filepath.Join(dir, "f"))
		whole := string(got) == strings.Repeat("old", size) || len(got) == size && bytes.Count(got, got[:1]) == size
		if err != nil || !whole {
			t.Errorf("f holds %d bytes, %v, neither the old nor a new version", len(got), err)
		}
		if _, err := dirAt(t, dir).Sweep(t.Context()); err != nil {
			t.Error(err)
		}
		wantNoTemps(t, dir)
	}
}
