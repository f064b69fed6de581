package localdir_test

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/store"
)

// TestDirSparse uploads 10 GiB of which 64 KiB are data, and asks the file system how much it
// stores. All file systems that Linux is usually installed on support holes.
func TestDirSparse(t *testing.T) {
	const size, every int64 = 10 << 30, 1 << 30
	dir, d := tempDir(t)
	u := begin(t, d, "f", store.Create{})
	piece := make([]byte, 16<<20)
	data := strings.Repeat("data", 1<<10)
	var wrote int64
	for off := int64(0); off < size; off += int64(len(piece)) {
		if clear(piece[:len(data)]); off%every == 0 {
			wrote += int64(copy(piece, data))
		}
		if _, err := u.WriteAt(piece, off); err != nil {
			t.Fatal(err)
		}
	}
	if err := u.Commit(); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(dir, "f"), &st); err != nil {
		t.Fatal(err)
	}
	if st.Size != size {
		t.Errorf("the file has %d bytes, want %d", st.Size, size)
	}
	if most := 10 * wrote; st.Blocks*512 > most {
		t.Errorf("%d bytes of data take %d bytes of disk, want no more than %d", wrote, st.Blocks*512, most)
	}
	f, err := d.Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := make([]byte, len(data)+1)
	if _, err := f.ReadAt(p, 9*every); err != nil || string(p) != data+"\x00" {
		t.Errorf("the data at %d has changed: %v", 9*every, err)
	}
}
