package localdir_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// crashCheckpoint gives resumable uploads of a few bytes many checkpoints.
const crashCheckpoint = 1000

// TestResumeCrash kills a process that resumes an upload, before each of its system calls in turn.
// Then it resumes that upload, first as after the death of the process, and then as after the death
// of the machine, in which all data that was not synced is lost, but no checkpoint.
func TestResumeCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if arg := os.Getenv(childEnv); arg != "" {
		resumeCrashChild(t, arg)
		return
	}
	data := source(10_000)
	for _, machine := range []bool{false, true} {
		resumedMost, killed := int64(0), ""
		for k := 1; killed != "end"; k++ {
			if k > 200 {
				t.Fatal("the upload has no end")
			}
			var resumed int64
			resumed, killed = testResumeCrash(t, data, k, machine)
			resumedMost = max(resumedMost, resumed)
		}
		if resumedMost < int64(len(data)-2*crashCheckpoint) {
			t.Errorf("whenever it was killed, no more than %d bytes were left of %d", resumedMost, len(data))
		}
	}
}

// testResumeCrash returns how many bytes a process left that was killed before call number k, and
// the name of that call.
func testResumeCrash(t *testing.T, data []byte, k int, machine bool) (resumed int64, killed string) {
	dir, synced := t.TempDir(), filepath.Join(t.TempDir(), "synced")
	d := dirAt(t, dir)
	d.SetCheckpoint(crashCheckpoint)
	u := resumable(t, d, "f", int64(len(data)))
	writePiece(t, u, data, 0, 3000)
	closeUpload(t, u)
	kept, _ := left(t, dir)
	before := readFile(t, kept)
	writeFile(t, filepath.Dir(synced), "synced", string(before))

	out, err := child(t, fmt.Sprintf("%d %s %s", k, dir, synced)).CombinedOutput()
	_, rest, found := strings.Cut(string(out), "killed before ")
	killed, _, _ = strings.Cut(rest, "\n")
	if err == nil || !found || strings.Contains(string(out), "--- FAIL") {
		t.Fatalf("not killed before call %d: %v\n%s", k, err, out)
	}
	if _, err := os.Stat(kept); err == nil && machine {
		// Write in place, because the file must still be the same one after the machine has
		// restarted.
		now := readFile(t, kept)
		durable := append(readFile(t, synced), make([]byte, len(now))...)[:len(now)]
		if err := writeAtOffset(kept, 0, durable); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "f")); err == nil && !bytes.Equal(got, data) {
		t.Errorf("killed before %s, f has %d bytes, which are not those uploaded", killed, len(got))
	}
	if _, err := d.Sweep(t.Context()); err != nil { // as a server does when it starts
		t.Error(err)
	}
	u = resumable(t, d, "f", int64(len(data)))
	resumed = u.Resumed()
	finish(t, dir, u, "f", data) // this also checks that the bytes that were left are right
	return resumed, killed
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// resumeCrashChild resumes an upload, and kills itself before its kth system call. It copies the
// data that is durable to another file, after each sync that has succeeded.
func resumeCrashChild(t *testing.T, arg string) {
	var k int
	var dir, synced string
	if _, err := fmt.Sscan(arg, &k, &dir, &synced); err != nil {
		t.Fatal(err)
	}
	d := dirAt(t, dir)
	d.SetCheckpoint(crashCheckpoint)
	kept, _ := left(t, dir)
	last := ""
	ahead := func(call string) error {
		if last == "datasync" {
			if err := os.WriteFile(synced, readFile(t, kept), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		last = call
		if k--; k == 0 {
			fmt.Println("killed before", call)
			killSelf(t)
		}
		return nil
	}
	d.Before(ahead)
	if err := goOn(t, d, source(10_000)); err != nil {
		t.Fatal(err)
	}
	_ = ahead("end")
}

var _ resumer = discardingUpload{}
