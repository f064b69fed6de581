package treecopy_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// Holes stay holes, whichever way the file is copied, and zeros become holes.
func TestSparse(t *testing.T) {
	const size = 100 << 20
	for _, way := range []string{"local", "download", "upload", "in place"} {
		for _, last := range []bool{false, true} {
			t.Run(fmt.Sprint(way, " ", last), func(t *testing.T) {
				local, dir := dirTree(t)
				dest, destDir := dirTree(t)
				pieces := map[int64][]byte{1 << 20: pattern(100_000, 1), 1<<20 + 200_000: pattern(10, 2), 60<<20 + 5: pattern(70_000, 3)}
				if last {
					pieces[size-3] = []byte("end")
				}
				f, err := os.Create(filepath.Join(dir, "f"))
				if err != nil {
					t.Fatal(err)
				}
				for off, b := range pieces {
					if _, err := f.WriteAt(b, off); err != nil {
						t.Fatal(err)
					}
				}
				if err := f.Truncate(size); err != nil {
					t.Fatal(err)
				}
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
				if blocks(t, filepath.Join(dir, "f")) > 2<<20 {
					t.Skip("this file system has no holes")
				}
				from, to := store.Tree(local), store.Tree(dest)
				switch way {
				case "download":
					from = remoteTree(t, local, false)
				case "upload":
					h := newHost(t, dest, true)
					t.Cleanup(h.end)
					to = h.dial(t, 0, 0, 0).Store("/")
					defer func() {
						if n := h.server.Counters().Received; n > 2<<20 {
							t.Errorf("%d bytes were sent", n)
						}
					}()
				}
				s := newSeen()
				j := treecopy.Job{
					To: to, Sources: []treecopy.Source{{Tree: from, Name: "f"}}, Hooks: s.hooks(),
					Options: treecopy.Options{Sparse: true, InPlace: way == "in place"},
				}
				if _, err := treecopy.Copy(t.Context(), j); err != nil {
					t.Fatal(err)
				}
				if n := blocks(t, filepath.Join(destDir, "f")); n > 2<<20 {
					t.Errorf("the copy has %d bytes on the disk", n)
				}
				if s.bytes["f"] != size {
					t.Errorf("%d bytes were reported", s.bytes["f"])
				}
				got, err := os.Open(filepath.Join(destDir, "f"))
				if err != nil {
					t.Fatal(err)
				}
				defer got.Close()
				for off, want := range pieces {
					b := make([]byte, len(want))
					if _, err := got.ReadAt(b, off); err != nil || !bytes.Equal(b, want) {
						t.Errorf("at %d: %v", off, err)
					}
				}
				if fi, err := got.Stat(); err != nil || fi.Size() != size {
					t.Errorf("the copy is %v, %v", fi, err)
				}
			})
		}
	}
}

// blocks returns how many bytes a file has on the disk.
func blocks(t *testing.T, name string) int64 {
	t.Helper()
	fi, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return fi.Sys().(*syscall.Stat_t).Blocks * 512
}
