package serve

import (
	"io"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
)

// The status page shows the machines of the boot service. It has no machines if boot clients are
// not answered.
func TestStatusPageHasMachines(t *testing.T) {
	for _, boots := range []bool{true, false} {
		cfg := settings.Default()
		cfg.Dirs, cfg.Status.Listen, cfg.Boot.Answer = []string{t.TempDir()}, "127.0.0.1:0", boots
		s := newServer(cfg, io.Discard)
		s.env.Counts, s.board = newCounts(&s.cfg, nil)
		err := s.openServices()
		if err != nil {
			t.Fatal(err)
		}
		if has := s.board.Machines != nil; has != boots {
			t.Errorf("boot clients are answered: %v, and the page has their machines: %v", boots, has)
		}
		s.close()
	}
}
