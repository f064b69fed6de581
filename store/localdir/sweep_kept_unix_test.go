//go:build unix

package localdir_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// These are the sizes of the uploads in these tests. Most of the data never arrives.
const (
	deadSize = 8 << 20
	deadSafe = 20_000 // number of bytes that the checkpoint covers
	deadCome = 25_000
	deadGap  = 4096 // all data after the gap has been written
)

// dieUploading starts another process that uploads to dir and then kills itself. With recorded, that
// process has stored a checkpoint; otherwise it has not. dieUploading returns the names of the two
// files that are left; checkpoint is "" without recorded. It skips the test if the file system does
// not report how much space a file takes.
func dieUploading(t *testing.T, dir string, recorded bool) (data, checkpoint string) {
	t.Helper()
	out, err := child(t, fmt.Sprintf("%t %s", recorded, dir)).CombinedOutput()
	if err == nil || strings.Contains(string(out), "--- FAIL") {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range temps(t, dir) {
		switch filepath.Ext(name) {
		case ".keep":
			data = name
		case ".mark":
			checkpoint = name
		}
	}
	if (checkpoint != "") != recorded || data == "" {
		t.Fatalf("%q are left", temps(t, dir))
	}
	if onDisk(t, data) < deadSize/2 {
		t.Skip("the file system does not say what a file takes")
	}
	return data, checkpoint
}

// diesUploading is the part of dieUploading for the process that dies. In the parent process it
// returns false.
func diesUploading(t *testing.T) bool {
	arg := os.Getenv(childEnv)
	if arg == "" {
		return false
	}
	var recorded bool
	var dir string
	if _, err := fmt.Sscan(arg, &recorded, &dir); err != nil {
		t.Fatal(err)
	}
	d, data := dirAt(t, dir), source(deadSize)
	if recorded {
		d.SetCheckpoint(deadSafe)
	}
	u := resumable(t, d, "f", deadSize)
	writePiece(t, u, data, 0, deadSafe)
	writePiece(t, u, data, deadSafe, deadCome)
	writePiece(t, u, data, deadCome+deadGap, deadSize)
	killSelf(t)
	return true
}

// onDisk returns how many bytes a file takes on the disk.
func onDisk(t *testing.T, name string) int64 {
	t.Helper()
	fi, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return fi.Sys().(*syscall.Stat_t).Blocks * 512
}

func wantSwept(t *testing.T, d *localdir.Dir, want int) {
	t.Helper()
	if n, err := d.Sweep(t.Context()); n != want || err != nil {
		t.Errorf("Sweep = %d, %v, want %d removed", n, err, want)
	}
}

// If the process of an upload has died, a sweep frees the space after the checkpoint. The safe part
// stays, so that the upload can be resumed. It is not kept for longer because of that.
func TestSweepReclaims(t *testing.T) {
	if diesUploading(t) {
		return
	}
	for what, sweep := range map[string]func(d *localdir.Dir) error{
		"Sweep":           func(d *localdir.Dir) error { _, err := d.Sweep(t.Context()); return err },
		"RemoveLeftovers": func(d *localdir.Dir) error { return store.CapabilitiesOf(d).RemoveLeftovers(t.Context(), ".") },
	} {
		dir, d := tempDir(t)
		kept, _ := dieUploading(t, dir, true)
		written := time.Now().Add(-3 * 24 * time.Hour).Truncate(time.Second)
		if err := os.Chtimes(kept, written, written); err != nil {
			t.Fatal(err)
		}
		if err := sweep(d); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got := onDisk(t, kept); got > deadSize/2 {
			t.Errorf("after %s, %d bytes that are kept take %d of the disk", what, deadSafe, got)
		}
		fi, err := os.Stat(kept)
		if err != nil || !fi.ModTime().Equal(written) {
			t.Errorf("%s: the last write was at %v, and now is at %v, %v", what, written, fi.ModTime(), err)
		}
		u := resumable(t, d, "f", deadSize)
		wantResumed(t, u, deadSafe)
		finish(t, dir, u, "f", source(deadSize))
	}
}

// An upload that died before there was a checkpoint has nothing to resume from.
func TestSweepWithoutCheckpoint(t *testing.T) {
	if diesUploading(t) {
		return
	}
	dir, d := tempDir(t)
	kept, _ := dieUploading(t, dir, false)
	writeFile(t, dir, filepath.Base(strings.TrimSuffix(kept, ".keep")+".mark"), "") // created, but empty
	wantSwept(t, d, 1)
	if _, err := os.Stat(kept); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	u := resumable(t, d, "f", 100)
	wantResumed(t, u, 0)
	finish(t, dir, u, "f", source(100))
}

// An upload under way keeps what it has written, with a checkpoint or without: it may belong to
// another process.
func TestSweepSparesTheLiving(t *testing.T) {
	if dir := os.Getenv(childEnv); dir != "" {
		wantSwept(t, dirAt(t, dir), 0)
		return
	}
	data := source(deadSize)
	for _, checkpoint := range []int64{deadSafe, 2 * deadSafe} {
		dir, d := tempDir(t)
		d.SetCheckpoint(checkpoint)
		u := resumable(t, d, "f", deadSize)
		writePiece(t, u, data, 0, deadSafe)
		writePiece(t, u, data, deadSafe, deadCome)
		writePiece(t, u, data, deadCome+deadGap, deadSize)
		kept := ""
		for _, name := range temps(t, dir) {
			if filepath.Ext(name) == ".keep" {
				kept = name
			}
		}
		before := onDisk(t, kept)
		wantSwept(t, d, 0)
		if out, err := child(t, dir).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		if got := onDisk(t, kept); got < before/2 {
			t.Errorf("the file took %d bytes of the disk, and takes %d", before, got)
		}
		finish(t, dir, u, "f", data)
	}
}

// A sweep does not touch a file whose checkpoint is invalid, or that has a second name, because it
// may be a file that was published.
func TestSweepDistrusts(t *testing.T) {
	if diesUploading(t) {
		return
	}
	tests := map[string]func(dir, kept, checkpoint string) error{
		"published": func(dir, kept, _ string) error { return os.Link(kept, filepath.Join(dir, "f")) },
		"changed":   func(_, kept, _ string) error { return writeAtOffset(kept, deadSafe-10, []byte("damage")) },
		"damaged checkpoints": func(_, _, checkpoint string) error {
			return errors.Join(writeAtOffset(checkpoint, 20, []byte("x")), writeAtOffset(checkpoint, 532, []byte("x")))
		},
		"another file": func(_, kept, _ string) error {
			b, err := os.ReadFile(kept)
			return errors.Join(err, os.Rename(kept, kept+"2"), os.WriteFile(kept, b, 0o600), os.Remove(kept+"2"))
		},
		"checkpoints elsewhere": func(dir, _, checkpoint string) error {
			return errors.Join(os.Rename(checkpoint, filepath.Join(dir, "other")), os.Symlink("other", checkpoint))
		},
	}
	for what, change := range tests {
		dir, d := tempDir(t)
		kept, checkpoint := dieUploading(t, dir, true)
		if err := change(dir, kept, checkpoint); err != nil {
			t.Fatal(err)
		}
		before := readFile(t, kept)
		_, _ = d.Sweep(t.Context()) // it may report a file that is not regular
		if !bytes.Equal(readFile(t, kept), before) {
			t.Errorf("%s: it was touched", what)
		}
	}
}

// If a sweep is checking the file of an upload that is resumed, the upload waits for the sweep.
func TestResumeDuringSweep(t *testing.T) {
	if diesUploading(t) {
		return
	}
	dir, d := tempDir(t)
	sweeper := dirAt(t, dir)
	dieUploading(t, dir, true)
	locked, proceed, swept := make(chan struct{}), make(chan struct{}), make(chan struct{})
	sweeper.Before(func(string) error {
		close(locked)
		<-proceed
		return nil
	})
	go func() {
		defer close(swept)
		wantSwept(t, sweeper, 0)
	}()
	select {
	case <-locked:
	case <-swept:
		t.Fatal("the sweep had nothing to give back")
	}
	tries := 0
	d.Before(func(call string) error {
		if call == "lock" {
			if tries++; tries == 2 {
				close(proceed)
				<-swept
			}
		}
		return nil
	})
	u := resumable(t, d, "f", deadSize)
	wantResumed(t, u, deadSafe)
	d.Before(nil)
	finish(t, dir, u, "f", source(deadSize))
}
