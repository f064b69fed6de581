package localdir_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

func TestSweep(t *testing.T) {
	outer := t.TempDir()
	dir := filepath.Join(outer, "root")
	name := ".haul-ABCDEFGHIJKLMNOPQRSTUVWXYZ.part"
	for _, p := range []string{name, "a/" + name, "a/b/" + name, "f", "a/.haul-mine.part", "a/x" + name} {
		writeFile(t, dir, p, "x")
	}
	// This is as if the upload had died before its rename.
	if err := os.Chmod(filepath.Join(dir, "a", name), 0o444); err != nil {
		t.Fatal(err)
	}
	writeFile(t, outer, "outside/"+name, "x")
	symlink(t, "../outside", dir, "link")
	symlink(t, "f", dir, ".haul-22222222222222222222222222.part")
	d := dirAt(t, dir)
	live := begin(t, d, "a/live", store.Create{Size: 100})

	if n, err := d.Sweep(t.Context()); n != 3 || err != nil {
		t.Errorf("Sweep = %d, %v, want 3 removed", n, err)
	}
	if n, err := d.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("the next Sweep = %d, %v, want none removed", n, err)
	}
	for _, p := range []string{"f", "a/.haul-mine.part", "a/x" + name, "../outside/" + name} {
		wantFile(t, dir, p, "x")
	}
	if _, err := os.Lstat(filepath.Join(dir, ".haul-22222222222222222222222222.part")); err != nil {
		t.Errorf("a link, which no upload leaves behind: %v", err)
	}
	if err := live.Commit(); err != nil {
		t.Errorf("commit of the upload that was under way: %v", err)
	}
	wantFile(t, dir, "a/live", "")
}

// TestSweepByAnotherProcess sweeps a directory to which this process uploads.
func TestSweepByAnotherProcess(t *testing.T) {
	if dir := os.Getenv(childEnv); dir != "" {
		if n, err := dirAt(t, dir).Sweep(t.Context()); n != 1 || err != nil {
			t.Errorf("Sweep = %d, %v, want 1 removed", n, err)
		}
		return
	}
	dir, d := tempDir(t)
	writeFile(t, dir, ".haul-ABCDEFGHIJKLMNOPQRSTUVWXYZ.part", "x")
	u := begin(t, d, "f", store.Create{})
	if _, err := u.WriteAt([]byte("kept"), 0); err != nil {
		t.Error(err)
	}
	if out, err := child(t, dir).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if err := u.Commit(); err != nil {
		t.Error(err)
	}
	wantFile(t, dir, "f", "kept")
	wantNoTemps(t, dir)
}

// TestSweepWhileCreating runs a sweep between the creation of each temporary file and its lock.
// Uploads must not lose their files.
func TestSweepWhileCreating(t *testing.T) {
	dir, d := tempDir(t)
	sweeper := dirAt(t, dir)
	swept := 0
	d.Before(func(call string) error {
		if call == "lock" && swept < 3 {
			n, err := sweeper.Sweep(t.Context())
			swept += n
			return err
		}
		return nil
	})
	if err := upload(t, d, "f", "kept", store.Create{}); err != nil {
		t.Error(err)
	}
	if swept != 3 {
		t.Errorf("swept %d files, want 3", swept)
	}
	wantFile(t, dir, "f", "kept")
	wantNoTemps(t, dir)

	swept = -1 << 20
	if err := upload(t, d, "g", "x", store.Create{}); err == nil {
		t.Error("upload succeeded although every temporary file was taken away")
	}
	wantNoTemps(t, dir)
}

func TestSweepDepth(t *testing.T) {
	dir, d := tempDir(t)
	deep := dir
	for range localdir.MaxSweepDepth + 1 {
		deep = filepath.Join(deep, "d")
	}
	name := ".haul-ABCDEFGHIJKLMNOPQRSTUVWXYZ.part"
	writeFile(t, deep, name, "x")
	writeFile(t, filepath.Dir(deep), name, "x")
	n, err := d.Sweep(t.Context())
	if n != 1 || err == nil || !strings.Contains(err.Error(), "deeper") {
		t.Errorf("Sweep = %d, %v, want 1 removed and an error about the depth", n, err)
	}
}

func TestSweepEndsWithContext(t *testing.T) {
	dir, d := tempDir(t)
	name := "a/b/c/.haul-ABCDEFGHIJKLMNOPQRSTUVWXYZ.part"
	writeFile(t, dir, name, "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n, err := d.Sweep(ctx)
	if n != 0 {
		t.Errorf("removed %d", n)
	}
	wantError(t, "Sweep", err, context.Canceled)
	wantFile(t, dir, name, "x")
}
