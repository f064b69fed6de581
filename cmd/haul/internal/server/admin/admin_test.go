package admin

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/service"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
)

// testServer returns a server with the default settings.
func testServer() *Server {
	cfg := settings.Default()
	return &Server{cfg: &cfg, env: &service.Env{Log: slog.New(slog.DiscardHandler)}}
}

// If a port is taken, the error says so.
func TestMetricsListenErrors(t *testing.T) {
	_, l := openTestPort(t, "127.0.0.1:0")
	s := testServer()
	_, _, err := s.open(t.Context(), new(handover.Inherited), handover.Metrics, l.Addr().String())
	if err == nil {
		s.Close()
	}
	if !errors.Is(err, failure.Listen) || !strings.Contains(err.Error(), "another server has that port") {
		t.Errorf("a port that is taken: %v", err)
	}
}

// openTestPort opens a port for administrators until the test ends.
func openTestPort(t *testing.T, addr string) (*port, net.Listener) {
	t.Helper()
	p, l, err := testServer().open(t.Context(), new(handover.Inherited), handover.Metrics, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p, l
}

// One address cannot take all connections to a port for administrators, unless only this machine
// can reach the port.
func TestConnections(t *testing.T) {
	for addr, limited := range map[string]bool{"0.0.0.0:0": true, "127.0.0.1:0": false} {
		_, l := openTestPort(t, addr)
		_, port, _ := net.SplitHostPort(l.Addr().String())
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				_, _ = io.WriteString(c, "x")
				go func() {
					_, _ = io.Copy(io.Discard, c) // until the client leaves
					c.Close()
				}()
			}
		}()
		// served reports whether a new connection is served.
		served := func(d net.Dialer) bool {
			t.Helper()
			c, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", port))
			if errors.Is(err, syscall.ECONNRESET) {
				return false // before the dialer has looked
			} else if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			n, _ := c.Read(make([]byte, 1))
			return n == 1
		}
		for range connsPerSource {
			if !served(net.Dialer{}) {
				t.Errorf("%s: fewer than %d connections are served", addr, connsPerSource)
			}
		}
		if ok := served(net.Dialer{}); ok == limited {
			t.Errorf("%s: that one more is served is %v", addr, ok)
		}
		if runtime.GOOS != "linux" { // Linux has more addresses for this machine
			continue
		}
		if !served(net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}) {
			t.Errorf("%s: another address is not served", addr)
		}
	}
}
