package localdir_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/store/storetest"
)

// TestResumeIsAnUpload checks the contract of all uploads with uploads that can be resumed, except
// for what Close does.
func TestResumeIsAnUpload(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	storetest.Run(t, func(t *testing.T) store.Store {
		_, d := tempDir(t)
		d.SetCheckpoint(5000)
		return discarding{d}
	})
}

// discarding makes all uploads resumable, each by another user, and makes Close discard them.
type discarding struct{ *localdir.Dir }

type discardingUpload struct{ resumer }

func (u discardingUpload) Close() error { return u.Discard() }

func (d discarding) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	uploaders.Lock()
	uploaders.n++
	c.Resume = fmt.Sprint(uploaders.n)
	uploaders.Unlock()
	u, err := d.Dir.Create(ctx, name, c)
	if err != nil {
		return nil, err
	}
	return discardingUpload{u.(resumer)}, nil
}

var uploaders struct {
	sync.Mutex
	n int
}

// resumable begins an upload by "me".
func resumable(t testing.TB, d *localdir.Dir, name string, size int64) resumer {
	t.Helper()
	u, err := d.Create(t.Context(), name, store.Create{Size: size, Resume: "me"})
	if err != nil {
		t.Fatal(err)
	}
	r, ok := u.(resumer)
	if !ok {
		t.Fatalf("%T cannot be resumed", u)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// source returns the content of uploads. No two parts of it are alike.
func source(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8)*31 ^ byte(i>>16)*17 | 1
	}
	return b
}

func writePiece(t testing.TB, u store.Upload, data []byte, from, to int) {
	t.Helper()
	if n, err := u.WriteAt(data[from:to], int64(from)); n != to-from || err != nil {
		t.Errorf("WriteAt(%d) = %d, %v", from, n, err)
	}
}

// finish writes the rest, commits, and checks the file.
func finish(t *testing.T, dir string, u resumer, name string, data []byte) {
	t.Helper()
	writePiece(t, u, data, int(u.Resumed()), len(data))
	if err := u.Commit(); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%s has %d bytes, %v, and they are not those uploaded", name, len(got), err)
	}
	wantNoTemps(t, dir)
}

func wantResumed(t *testing.T, u resumer, want int) {
	t.Helper()
	if got := u.Resumed(); got != int64(want) {
		t.Errorf("%d bytes are there from before, want %d", got, want)
	}
}

func closeUpload(t *testing.T, u store.Upload) {
	t.Helper()
	if err := u.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestResume(t *testing.T) {
	data := source(100_000)
	for _, size := range []int64{0, 100_000} {
		for _, checkpoint := range []int64{1, 10_000, 1 << 20} {
			dir, d := tempDir(t)
			d.SetCheckpoint(checkpoint)
			u := resumable(t, d, "f", size)
			wantResumed(t, u, 0)
			for off := 0; off < 40_000; off += 8000 {
				writePiece(t, u, data, off, off+8000)
			}
			writePiece(t, u, data, 50_000, 60_000) // before a gap
			closeUpload(t, u)
			closeUpload(t, u)
			wantNames(t, d, ".")
			u = resumable(t, d, "f", size)
			wantResumed(t, u, 40_000)
			writePiece(t, u, data, 41_000, 45_000)
			writePiece(t, u, data, 40_000, 41_000) // fills the gap
			closeUpload(t, u)
			u = resumable(t, d, "f", size)
			wantResumed(t, u, 45_000)
			closeUpload(t, u) // nothing new
			u = resumable(t, d, "f", size)
			wantResumed(t, u, 45_000)
			finish(t, dir, u, "f", data)
			u = resumable(t, d, "f", size)
			wantResumed(t, u, 0)
			if err := u.Discard(); err != nil {
				t.Error(err)
			}
			wantNoTemps(t, dir)
		}
	}
}

// TestResumeSparse resumes after zeros that were never written.
func TestResumeSparse(t *testing.T) {
	for _, size := range []int64{0, 200_000} {
		dir, d := tempDir(t)
		data := source(200_000)
		clear(data[20_480:100_000])
		u := resumable(t, d, "f", size)
		writePiece(t, u, data, 0, 90_000)
		if _, err := u.WriteAt(source(4096), 94_208); err != nil { // lost, and zeros next time
			t.Error(err)
		}
		closeUpload(t, u)
		u = resumable(t, d, "f", size)
		wantResumed(t, u, 90_000)
		clear(data[4096:12_288]) // zeros where there was data before
		writePiece(t, u, data, 4096, 12_288)
		finish(t, dir, u, "f", data)
	}
}

func TestResumeByOthers(t *testing.T) {
	dir, d := tempDir(t)
	data := source(1000)
	mine := resumable(t, d, "f", 0)
	writePiece(t, mine, data, 0, 500)

	// While the upload is under way, the same user cannot resume it. Other users can begin an
	// upload of the same name, and the same user can begin one under another name.
	_, err := d.Create(t.Context(), "f", store.Create{Resume: "me"})
	wantError(t, "Create of an upload under way", err, store.ErrBusy)
	for _, c := range []store.Create{{Resume: "you"}, {}} {
		u := begin(t, d, "f", c)
		if r, ok := u.(resumer); ok {
			wantResumed(t, r, 0)
		}
		if err := u.Commit(); err != nil {
			t.Error(err)
		}
	}
	elsewhere := resumable(t, d, "g", 0)
	wantResumed(t, elsewhere, 0)
	closeUpload(t, elsewhere)
	closeUpload(t, mine)
	if n, err := d.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("Sweep = %d, %v", n, err)
	}
	mine = resumable(t, d, "f", 0)
	wantResumed(t, mine, 500)
	closeUpload(t, mine)

	// An upload with another size is another file.
	other := resumable(t, d, "f", 777)
	wantResumed(t, other, 0)
	closeUpload(t, other)
	mine = resumable(t, d, "f", 0)
	wantResumed(t, mine, 0)
	finish(t, dir, mine, "f", data)
}

func TestResumeEnds(t *testing.T) {
	dir, d := tempDir(t)
	data := source(1000)
	u := resumable(t, d, "f", 0)
	closeUpload(t, u) // nothing was written, so nothing is kept
	wantNoTemps(t, dir)

	u = resumable(t, d, "f", 0)
	writePiece(t, u, data, 0, 500)
	if err := u.Discard(); err != nil {
		t.Error(err)
	}
	wantNoTemps(t, dir)
	for what, err := range map[string]error{
		"Commit": u.Commit(), "Truncate": u.Truncate(0), "WriteAt": second(u.WriteAt(data, 0)), "again": second(u.WriteAt(data, 499)),
	} {
		wantError(t, what+" after Discard", err, fs.ErrClosed)
	}
	if err := errors.Join(u.Close(), u.Discard()); err != nil {
		t.Error(err)
	}

	// A Commit that is refused keeps nothing either.
	u2, err := d.Create(t.Context(), "f", store.Create{Resume: "me", Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	writePiece(t, u2, data, 0, 500)
	writeFile(t, dir, "f", "theirs")
	wantError(t, "exclusive Commit", u2.Commit(), fs.ErrExist)
	wantNoTemps(t, dir)
	wantFile(t, dir, "f", "theirs")
}

func second[T any](_ T, err error) error { return err }

// TestResumeTruncated cuts the part before the checkpoint.
func TestResumeTruncated(t *testing.T) {
	dir, d := tempDir(t)
	d.SetCheckpoint(1000)
	data := source(10_000)
	u := resumable(t, d, "f", 0)
	writePiece(t, u, data, 0, 8000)
	writePiece(t, u, data, 9000, 10_000)
	for _, size := range []int64{9500, 5000, 7000} { // the last call extends the file with zeros
		if err := u.Truncate(size); err != nil {
			t.Error(err)
		}
	}
	closeUpload(t, u)
	u = resumable(t, d, "f", 0)
	wantResumed(t, u, 5000)
	if err := u.Truncate(0); err != nil {
		t.Error(err)
	}
	closeUpload(t, u)
	wantNoTemps(t, dir)
}

// TestResumeRewritten checks that the checkpoint is moved back, durably, before any data before it
// is overwritten.
func TestResumeRewritten(t *testing.T) {
	_, d := tempDir(t)
	d.SetCheckpoint(1000)
	data := source(10_000)
	u := resumable(t, d, "f", 0)
	writePiece(t, u, data, 0, 5000)
	writePiece(t, u, data, 5000, 5500)
	calls := record(d)
	writePiece(t, u, data, 5200, 5300) // data after the checkpoint
	if got := calls(); got != "write" {
		t.Errorf("behind the checkpoint: calls %q", got)
	}
	writePiece(t, u, data, 2000, 3000)
	if got := calls(); got != "checkpoint sync write" {
		t.Errorf("in front of it: calls %q", got)
	}
	writePiece(t, u, data, 2500, 2600)
	if got := calls(); got != "write" {
		t.Errorf("again: calls %q", got)
	}
	writePiece(t, u, data, 5500, 5501) // now the checkpoint may advance again
	if got := calls(); got != "write datasync checkpoint" {
		t.Errorf("at the end: calls %q", got)
	}
	d.Before(nil)
	closeUpload(t, u)
	wantResumed(t, resumable(t, d, "f", 0), 5501)
}

// record records the calls. The function that it returns returns each call once.
func record(d *localdir.Dir) func() string {
	var calls []string
	d.Before(func(call string) error {
		calls = append(calls, call)
		return nil
	})
	return func() string {
		s := strings.Join(calls, " ")
		calls = nil
		return s
	}
}

// left returns the names of the data and the checkpoints that an upload left.
func left(t *testing.T, dir string) (data, checkpoint string) {
	t.Helper()
	for _, name := range temps(t, dir) {
		switch filepath.Ext(name) {
		case ".keep":
			data = name
		case ".mark":
			checkpoint = name
		default:
			t.Errorf("what is %s?", name)
		}
	}
	if data == "" || checkpoint == "" {
		t.Fatalf("left are %q and %q", data, checkpoint)
	}
	return data, checkpoint
}

func writeAtOffset(name string, off int64, p []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(p, off)
	return err
}

// TestResumeOneCheckpointLeft damages the newer of two checkpoints, as a machine does that
// dies while it is written.
func TestResumeOneCheckpointLeft(t *testing.T) {
	dir, d := tempDir(t)
	d.SetCheckpoint(1000)
	data := source(10_000)
	u := resumable(t, d, "f", 0)
	writePiece(t, u, data, 0, 3000) // checkpoint 1, in the second place
	writePiece(t, u, data, 3000, 6000)
	closeUpload(t, u)
	_, checkpoint := left(t, dir)
	if err := writeAtOffset(checkpoint, 30, []byte("damage")); err != nil {
		t.Fatal(err)
	}
	u = resumable(t, d, "f", 0)
	wantResumed(t, u, 3000)
	finish(t, dir, u, "f", data)
}

func TestSweepResumable(t *testing.T) {
	dir, d := tempDir(t)
	u := resumable(t, d, "f", 0)
	writePiece(t, u, source(1000), 0, 1000)
	closeUpload(t, u)
	if n, err := d.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("Sweep of what can be resumed = %d, %v", n, err)
	}
	old := time.Now().Add(-8 * 24 * time.Hour)
	for _, name := range temps(t, dir) {
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	u = resumable(t, d, "f", 0)
	for _, name := range temps(t, dir) {
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := d.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("Sweep under an upload = %d, %v", n, err)
	}
	closeUpload(t, u)
	if n, err := d.Sweep(t.Context()); n != 2 || err != nil {
		t.Errorf("Sweep of what is too old = %d, %v, want 2", n, err)
	}
	wantNoTemps(t, dir)
}

// TestResumeConcurrently writes from many goroutines while checkpoints are stored.
func TestResumeConcurrently(t *testing.T) {
	const piece = 1000
	dir, d := tempDir(t)
	d.SetCheckpoint(5 * piece)
	data := source(100 * piece)
	u := resumable(t, d, "f", 0)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := w; i < 60; i += 4 {
				writePiece(t, u, data, i*piece, (i+1)*piece)
			}
		})
	}
	wg.Wait()
	closeUpload(t, u)
	u = resumable(t, d, "f", 0)
	wantResumed(t, u, 60*piece)
	finish(t, dir, u, "f", data)
}

// TestResumeFailures makes each system call of an upload that resumes another one fail in turn.
// Whatever happens, the next upload must have the right bytes.
func TestResumeFailures(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	data := source(10_000)
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		for k := 1; k < 100; k++ {
			if !resumeWithFailure(t, data, k, errno) {
				break
			}
		}
	}
}

// resumeWithFailure returns false if there are fewer than k calls.
func resumeWithFailure(t *testing.T, data []byte, k int, errno syscall.Errno) bool {
	dir, d := tempDir(t)
	d.SetCheckpoint(1000)
	u := resumable(t, d, "f", 10_000)
	writePiece(t, u, data, 0, 3000)
	closeUpload(t, u)
	calls, failed := 0, ""
	d.Before(func(call string) error {
		if calls++; calls == k {
			failed = call
			return errno
		}
		return nil
	})
	err := goOn(t, d, data)
	d.Before(nil)
	if err != nil {
		wantError(t, failed, err, errno)
	} else if failed != "" && !slices.Contains([]string{"truncate", "remove"}, failed) {
		t.Errorf("%s failed by %v, and no error was returned", failed, errno)
	}
	if failed == "syncdir" && err != nil { // the file has its name by then, or the upload has not begun
		if got, err := os.ReadFile(filepath.Join(dir, "f")); err == nil && !bytes.Equal(got, data) {
			t.Error("a file of other content has the name")
		}
	}
	finish(t, dir, resumable(t, d, "f", 10_000), "f", data)
	return failed != ""
}

// goOn writes the rest in pieces, some of them twice, and commits.
func goOn(t *testing.T, d *localdir.Dir, data []byte) error {
	u, err := d.Create(t.Context(), "f", store.Create{Size: int64(len(data)), Resume: "me"})
	if err != nil {
		return err
	}
	defer u.Close()
	from := int(u.(resumer).Resumed())
	if got := make([]byte, from); from > 0 {
		kept, _ := left(t, d.RootName())
		f, err := os.Open(kept)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.ReadAt(got, 0); err != nil && err != io.EOF || !bytes.Equal(got, data[:from]) {
			t.Errorf("the first %d bytes are not those that were written, %v", from, err)
		}
	}
	for off := from; off < len(data); off += 700 {
		if _, err := u.WriteAt(data[off:min(off+700, len(data))], int64(off)); err != nil {
			return err
		}
		if again := off - 1500; again > 0 {
			if _, err := u.WriteAt(data[again:again+100], int64(again)); err != nil {
				return err
			}
		}
	}
	return u.Commit()
}
