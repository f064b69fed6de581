package runs

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/filelock"
	"github.com/haul-project/haul/internal/tempname"
)

func files(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A run counts as alive until it ends, even in its own process. Afterwards, other runs find that it
// has ended, if it left a temporary file behind or was killed.
func TestEnded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "runs")
	for _, left := range []bool{false, true} {
		other, run := in(dir), in(dir)
		id := run.ID()
		if len(id) != tempname.RunBytes || run.ID() != id || run.Ended(id) || other.Ended(id) {
			t.Errorf("it has the ID %q, and has ended", id)
		}
		if left {
			run.NoteLeftover()
		}
		run.End()
		var asked sync.WaitGroup
		for range 20 {
			asked.Go(func() {
				if other.Ended(id) != left {
					t.Errorf("left something: %v; ended: %v", left, !left)
				}
			})
		}
		asked.Wait()
		if n := len(files(t, dir)); n > 0 != left {
			t.Errorf("left something: %v; there are %d files", left, n)
		}
	}
	for _, id := range []string{"", "A", "../../etc/AAA", "ABCDEFGHIJKLM"} {
		if in(dir).Ended(id) {
			t.Errorf("a run %q that never was has ended", id)
		}
	}
}

// A run of another machine that shares the directory does not count as ended.
func TestOtherMachine(t *testing.T) {
	dir := t.TempDir()
	there := in(dir)
	there.host = "other"
	id := there.ID()
	there.NoteLeftover()
	there.End()
	if len(files(t, dir)) != 1 || in(dir).Ended(id) {
		t.Error("a run of another machine has ended")
	}
}

const fewRuns = 10

// few returns the runs of a directory that may hold only fewRuns files.
func few(dir string) *Runs {
	r := in(dir)
	r.most = fewRuns
	return r
}

// If there are too many runs, the oldest ended run is forgotten. Later runs and live ones are not.
func TestManyRuns(t *testing.T) {
	dir := t.TempDir()
	alive := few(dir)
	id := func(i int) string { return fmt.Sprintf("%0*d", tempname.RunBytes, i) }
	for i := range fewRuns - 1 {
		writeAged(t, alive.name(id(i)), time.Duration(fewRuns-i)*time.Minute)
	}
	writeAged(t, alive.name(alive.ID()), fewRuns*time.Hour)
	run := few(dir)
	if run.ID() == "" || len(files(t, dir)) != fewRuns {
		t.Errorf("the ID is %q, and there are %d files", run.ID(), len(files(t, dir)))
	}
	for i, want := range []bool{false, true, true} {
		if run.Ended(id(i)) != want {
			t.Errorf("it is known of run %d that it has ended: %v, want %v", i, !want, want)
		}
	}
	if _, err := os.Stat(alive.name(alive.ID())); err != nil {
		t.Error(err)
	}
	run.End()
	alive.End()
}

// writeAged gives an empty file an age.
func writeAged(t *testing.T, name string, age time.Duration) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	then := time.Now().Add(-age)
	if err := os.Chtimes(name, then, then); err != nil {
		t.Fatal(err)
	}
}

// The files of old runs are removed, except those of live runs. Without a directory, or with too
// many live runs, there is no ID.
func TestNoID(t *testing.T) {
	dir := t.TempDir()
	lasting := few(dir)
	lasting.ID()
	var locks []*os.File
	for i := range fewRuns - 1 {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if locked, err := filelock.Try(f); !locked {
			t.Fatal(err)
		}
		locks = append(locks, f)
	}
	if id := few(dir).ID(); id != "" {
		t.Errorf("with too many runs the ID is %s", id)
	}
	for _, f := range locks {
		_ = f.Close()
	}
	old := time.Now().Add(-keepFor - time.Hour)
	for _, name := range files(t, dir) {
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	run := few(dir)
	if run.ID() == "" || len(files(t, dir)) != 2 {
		t.Errorf("there are %q", files(t, dir))
	}
	run.End()
	lasting.End()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if id := in(filepath.Join(file, "runs")).ID(); id != "" {
		t.Errorf("without a directory the ID is %s", id)
	}
	in(dir).End() // a run that never began
	if homeless := in(""); homeless.ID() != "" || homeless.Ended("ABCDEFGHIJKLM") {
		t.Error("without a home directory there are runs")
	}
}
