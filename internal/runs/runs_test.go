package runs

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

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

// A run is alive until it ends, to itself too. Afterwards others know of it if it left something,
// or was killed.
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

// A run of another machine with the same directory is not known.
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

// The files of old runs are removed, but for those of runs that last. Without a directory, or with
// too many runs, there is no ID.
func TestNoID(t *testing.T) {
	dir := t.TempDir()
	lasting := in(dir)
	lasting.ID()
	for i := range maxRuns {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if id := in(dir).ID(); id != "" {
		t.Errorf("with too many runs the ID is %s", id)
	}
	old := time.Now().Add(-keepFor - time.Hour)
	for _, name := range files(t, dir) {
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	run := in(dir)
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
	in(dir).End() // of a run that never began
	if homeless := in(""); homeless.ID() != "" || homeless.Ended("ABCDEFGHIJKLM") {
		t.Error("without a home directory there are runs")
	}
}
