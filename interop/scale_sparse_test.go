//go:build linux

package interop

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	sparseSize  = 9 << 29
	sparsePiece = 3 << 20  // bytes at each place that is no hole
	sparseRoom  = 6 << 30  // bytes the disk must have: a download sets the file's size aside
	sparseDisk  = 64 << 20 // and what the file may take where its holes stay holes
)

// A disk image of 4.5 GiB, nearly all of it holes, goes to a client and back.
// Its data lies where offsets outgrow 31 and 32 bits, where block numbers have
// gone round many times, and across no boundary of any block.
func TestSparse(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no transfer of 4.5 GiB")
	}
	dir, into := t.TempDir(), t.TempDir()
	var fs syscall.Statfs_t
	if err := syscall.Statfs(into, &fs); err != nil {
		t.Fatal(err)
	}
	if free := int64(fs.Bavail) * fs.Bsize; free < sparseRoom {
		absent(t, "%s has %s free, and a download of 4.5 GiB sets that much aside: 6 GiB are needed; TMPDIR chooses another place",
			into, inMiB(free))
	}
	image := filepath.Join(dir, "disk.img")
	makeSparse(t, image, []int64{0, 2<<30 + 12345, 4<<30 + 777, sparseSize / 2, sparseSize - sparsePiece})
	if used := sparseUse(t, image); used > sparseDisk {
		absent(t, "files have no holes on this file system: %s for an image of %s; TMPDIR chooses another place", inMiB(used), inMiB(5*sparsePiece))
	}
	addr, d := serve(t, dir, "--upload", "create")

	got := filepath.Join(into, "got")
	move := func(what string, args ...string) time.Duration {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		began := time.Now()
		if out, err := haul(t).run(ctx, args...); err != nil {
			t.Fatalf("%s: %v\n%s", what, err, out)
		}
		return time.Since(began)
	}
	took := move("haul get", "get", "-q", url(addr, "disk.img"), got)
	wantSame(t, got, image)
	used := sparseUse(t, got)
	t.Logf("get: %v, takes %s of disk", took.Round(time.Millisecond), inMiB(used))
	if used > sparseSize+sparseDisk {
		t.Errorf("the file fetched takes %s of disk, more than its size", inMiB(used))
	}

	took = move("haul put", "put", "-q", got, url(addr, "back"))
	back := filepath.Join(dir, "back")
	wantSame(t, back, image)
	used = sparseUse(t, back)
	t.Logf("put: %v, takes %s of disk", took.Round(time.Millisecond), inMiB(used))
	if used > sparseDisk {
		t.Errorf("the file stored by the server takes %s of disk: its holes are gone", inMiB(used))
	}
	if err := d.stop(); err != nil {
		t.Errorf("haul serve, told to end: %v", err)
	}
}

// makeSparse makes a file of sparseSize bytes with random data at the offsets.
func makeSparse(t *testing.T, name string, offsets []int64) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(sparseSize); err != nil {
		t.Fatal(err)
	}
	random := rand.NewChaCha8([32]byte{10})
	b := make([]byte, sparsePiece)
	for _, off := range offsets {
		_, _ = random.Read(b)
		if _, err := f.WriteAt(b, off); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil { // or the disk does not know yet what it takes
		t.Fatal(err)
	}
}

func sparseUse(t *testing.T, name string) int64 {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(name, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

// wantSame compares two files, byte for byte, but for what is a hole in both:
// all of that is zeros. A hole is not read, as that would fill the memory with it.
func wantSame(t *testing.T, name, like string) {
	t.Helper()
	a, b := openSized(t, name), openSized(t, like)
	defer a.Close()
	defer b.Close()
	compared := int64(0)
	for at := int64(0); at < sparseSize; {
		aBegin, aEnd := nextData(t, a, at)
		bBegin, bEnd := nextData(t, b, at)
		// Up to end, each of the two is data all the way, or a hole.
		end := min(aEnd, bEnd)
		for _, begin := range []int64{aBegin, bBegin} {
			if begin > at {
				end = min(end, begin)
			}
		}
		if x, y := reader(a, aBegin <= at), reader(b, bBegin <= at); x != nil || y != nil {
			wantSameRange(t, filepath.Base(name), x, y, at, end)
			compared += end - at
		}
		at = end
	}
	if compared < 5*sparsePiece {
		t.Fatalf("%s: only %d bytes compared: the comparison is wrong", filepath.Base(name), compared)
	}
}

// reader is nil for a hole.
func reader(f *os.File, data bool) io.ReaderAt {
	if !data {
		return nil
	}
	return f
}

func openSized(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() != sparseSize {
		t.Fatalf("%s has %d bytes, want %d", filepath.Base(name), info.Size(), int64(sparseSize))
	}
	return f
}

// nextData returns the first range from at on that is no hole, or an empty one at the end.
func nextData(t *testing.T, f *os.File, at int64) (begin, end int64) {
	t.Helper()
	begin, err := f.Seek(at, unix.SEEK_DATA)
	if errors.Is(err, syscall.ENXIO) {
		return sparseSize, sparseSize
	}
	if err == nil {
		end, err = f.Seek(begin, unix.SEEK_HOLE)
	}
	if err != nil {
		t.Fatal(err)
	}
	return begin, end
}

// wantSameRange compares what two readers have, of which nil has zeros.
func wantSameRange(t *testing.T, name string, a, b io.ReaderAt, begin, end int64) {
	t.Helper()
	x, y := make([]byte, 1<<20), make([]byte, 1<<20)
	for at := begin; at < end; {
		n := min(end-at, int64(len(x)))
		readRange(t, a, x[:n], at)
		readRange(t, b, y[:n], at)
		if !bytes.Equal(x[:n], y[:n]) {
			t.Fatalf("%s is not the same as its source between %d and %d", name, at, at+n)
		}
		at += n
	}
}

func readRange(t *testing.T, r io.ReaderAt, into []byte, at int64) {
	t.Helper()
	if r == nil {
		return
	}
	if _, err := r.ReadAt(into, at); err != nil && err != io.EOF {
		t.Fatal(err)
	}
}
