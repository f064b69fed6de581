package ports

import (
	"bytes"
	"log/slog"
	"maps"
	"net"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/internal/linequeue"
	"github.com/haul-project/haul/tcp"
)

// Each reason to refuse a connection has its counter and its cause in the log.
func TestRefusedConns(t *testing.T) {
	for _, test := range []struct {
		why    error
		cause  string
		reason meter.Reason
	}{
		{tcp.ErrDenied, "--allow and --deny", meter.Denied},
		{tcp.ErrSourceFull, "too many connections of this source", meter.Address},
		{tcp.ErrFull, "too many connections in all", meter.Busy},
	} {
		var out bytes.Buffer
		log := linequeue.NewLog(slog.New(slog.NewTextHandler(&out, nil)))
		counts := meter.New(meter.Config{})
		refused := NewRefusedConns(log, counts, meter.HTTPS)
		var s tcp.Server
		refused.Restrict(&s, &settings.Config{})
		s.Refused(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4321}, test.why)
		refused.Flush()
		log.Close()
		if got := counts.Refused(meter.HTTPS); !maps.Equal(got, map[meter.Reason]int64{test.reason: 1}) {
			t.Errorf("%v is counted as %v", test.why, got)
		}
		if said := out.String(); !strings.Contains(said, `cause="`+test.cause+`"`) || !strings.Contains(said, "https: connections turned away") {
			t.Errorf("%v is logged as %q", test.why, said)
		}
	}
}
