package localdir_test

import (
	"testing"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/store"
)

// TestHandlesDoNotAllocate reads and writes in place, which a server does for each packet.
func TestHandlesDoNotAllocate(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	_, d := tempDir(t)
	for name, tree := range map[string]store.Tree{"Dir": d, "Mem": store.Mem(0)} {
		h, err := tree.OpenFile(t.Context(), "f", store.Access{Read: true, Write: true, Create: true})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		p := make([]byte, 32<<10)
		if _, err := h.WriteAt(p, 0); err != nil {
			t.Fatal(err)
		}
		n := testing.AllocsPerRun(100, func() {
			if _, err := h.WriteAt(p, 0); err != nil {
				t.Error(err)
			}
			if _, err := h.ReadAt(p, 0); err != nil {
				t.Error(err)
			}
		})
		if n != 0 {
			t.Errorf("%s: a write and a read allocate %v times", name, n)
		}
	}
}
