package localdir_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// Writing a large upload to the disk begins early. Commit does not depend on it.
func TestWriteback(t *testing.T) {
	const piece, size = 1 << 20, 3*localdir.WritebackEvery - 1
	for _, broken := range []bool{false, true} {
		root, d := tempDir(t)
		asked := 0
		d.Before(func(call string) error {
			if call != "writeback" {
				return nil
			}
			asked++
			if broken {
				return errors.New("no")
			}
			return nil
		})
		u, err := d.Create(t.Context(), "large", store.Create{})
		if err != nil {
			t.Fatal(err)
		}
		content := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
		for off := 0; off < size; off += piece {
			if _, err := u.WriteAt(content[off:min(off+piece, size)], int64(off)); err != nil {
				t.Fatal(err)
			}
		}
		if asked != 2 {
			t.Errorf("the disk was set going %d times, want 2", asked)
		}
		if err := u.Commit(); err != nil {
			t.Errorf("broken=%v: %v", broken, err)
		}
		if got, err := os.ReadFile(filepath.Join(root, "large")); err != nil || !bytes.Equal(got, content) {
			t.Errorf("broken=%v: %d bytes are there, %v", broken, len(got), err)
		}
	}
}
