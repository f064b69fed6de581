//go:build unix

package interop

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// hiddenIn returns the hidden files of uploads in a directory.
func hiddenIn(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, ".haul-*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// awaitHidden waits until there are more hidden files in a directory.
func awaitHidden(t *testing.T, dir string, than int) {
	t.Helper()
	for deadline := time.Now().Add(startPatience); len(hiddenIn(t, dir)) <= than; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s has no hidden file", dir)
		}
	}
}

// The next run from this machine removes what killed runs left on an sshd, which has no locks, and
// nothing of a run that waits for its input.
func TestLeftovers(t *testing.T) {
	dir := realDir(t)
	l := sshdInternal.start(t, dir)
	local, p := t.TempDir(), haul(t)
	login := []string{"--batch", "-q", "-F", l.sshConfig(t)}
	for _, name := range []string{"a", "b", "c", "d"} {
		write(t, filepath.Join(local, name), content(300_000))
	}
	if err := os.MkdirAll(filepath.Join(dir, "to", "gone"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "to", "gone", "x"), []byte("x"))

	in, out := io.Pipe()
	live := p.command(t.Context(), append([]string{"put", "-", "server:to/live"}, login...)...)
	live.Stdin = in
	if err := live.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write([]byte("begin")); err != nil {
		t.Fatal(err)
	}
	awaitHidden(t, filepath.Join(dir, "to"), 0)
	alive := hiddenIn(t, filepath.Join(dir, "to"))

	for to, than := range map[string]int{"to": 1, "to/gone": 0} {
		killed := p.command(t.Context(), append([]string{"put", "-r", "--limit", "100k", local + "/.", "server:" + to}, login...)...)
		if err := killed.Start(); err != nil {
			t.Fatal(err)
		}
		awaitHidden(t, filepath.Join(dir, to), than)
		if err := killed.Process.Signal(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		_ = killed.Wait()
		if len(hiddenIn(t, filepath.Join(dir, to))) <= than {
			t.Errorf("the killed run has left nothing in %s: what does this test show?", to)
		}
	}
	mustRun(t, p, "", append([]string{"sync", "--delete", "--exclude", "live", local, "server:to"}, login...)...)
	if left := hiddenIn(t, filepath.Join(dir, "to")); len(left) != 1 || left[0] != alive[0] {
		t.Errorf("there are %q, want %q, which is under way", left, alive)
	}
	if _, err := os.Stat(filepath.Join(dir, "to", "gone")); !os.IsNotExist(err) {
		t.Errorf("what SOURCE does not have: %v", err)
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		sameFiles(t, filepath.Join(local, name), filepath.Join(dir, "to", name))
	}
	if _, err := out.Write([]byte(", end")); err != nil {
		t.Error(err)
	}
	_ = out.Close()
	if err := live.Wait(); err != nil {
		t.Errorf("the run that waited: %v", err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "to", "live"))
	if !bytes.Equal(got, []byte("begin, end")) {
		t.Errorf("it has sent %q, %v", got, err)
	}
	wantOnly(t, filepath.Join(dir, "to"), "a", "b", "c", "d", "live")
}
