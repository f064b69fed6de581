package serve

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
)

// A default service takes another port if its own is taken, and says so. A service whose address
// was configured explicitly does not.
func TestFallBack(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, named := range []bool{false, true} {
		cfg := settings.Default()
		cfg.Dirs, cfg.TFTP.Listen, cfg.Unconfined = []string{t.TempDir()}, nil, true
		cfg.HTTP.Listen = []string{taken.Addr().String()}
		if !named {
			cfg.HTTP.Fallback = "127.0.0.1:0"
		}
		ended, end := context.WithCancel(t.Context())
		end() // a server that can listen ends at once
		var out strings.Builder
		err := Run(ended, cfg, &out)
		_, port, _ := net.SplitHostPort(taken.Addr().String())
		said := strings.Contains(out.String(), port+", taking 127.0.0.1:0 instead") && strings.Contains(out.String(), "serving "+cfg.Dirs[0]+" on http://127.0.0.1:")
		if named == (err == nil) || named == said {
			t.Errorf("named %v: %v\n%s", named, err, out.String())
		}
	}
}
