package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
)

// A service that nobody named takes another port if its own is taken, and says so. One
// that was named does not.
func TestFallBack(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	before := fallbackAddrs[handover.HTTP]
	fallbackAddrs[handover.HTTP] = "127.0.0.1:0"
	defer func() { fallbackAddrs[handover.HTTP] = before }()
	for _, named := range []bool{false, true} {
		cfg := Default()
		cfg.Dirs, cfg.TFTP.Listen, cfg.Unconfined = []string{t.TempDir()}, nil, true
		cfg.HTTP.Listen, cfg.HTTP.FallBack = []string{taken.Addr().String()}, !named
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

// Errors that another port does not mend remain.
func TestFallBackReasons(t *testing.T) {
	for err, want := range map[error]string{
		syscall.EACCES:        "no privilege for port 69, taking :6969 instead (port 69 needs root",
		syscall.EADDRINUSE:    "another server has port 69, taking :6969 instead (port 69 is free once that server is stopped; --tftp ADDRESS",
		syscall.EADDRNOTAVAIL: "",
	} {
		var out strings.Builder
		cfg := Default()
		other := cfg.fallBack(&out, handover.TFTP, []string{":69"}, os.NewSyscallError("bind", err), nil)
		if (other != nil) != (want != "") || !strings.Contains(out.String(), want) {
			t.Errorf("%v: %q, %s", err, other, out.String())
		}
	}
	// After a reload the port is this server's own.
	cfg := Default()
	if other := cfg.fallBack(io.Discard, handover.TFTP, []string{":69"}, syscall.EADDRINUSE, &net.UDPAddr{Port: 69}); other != nil {
		t.Errorf("fell back to %q from a port of its own", other)
	}
}

func TestMetricsListenErrors(t *testing.T) {
	cfg := Default()
	_, l := openTestAdmin(t, "127.0.0.1:0")
	again, _, err := cfg.openAdmin(t.Context(), new(handover.Inherited), handover.Metrics, l.Addr().String(), slog.New(slog.DiscardHandler))
	if err == nil {
		again.close()
	}
	if !errors.Is(err, failure.Listen) || !strings.Contains(err.Error(), "another server has that port") {
		t.Errorf("a port that is taken: %v", err)
	}
}

// openTestAdmin opens a port for operators until the test ends.
func openTestAdmin(t *testing.T, addr string) (*adminPort, net.Listener) {
	t.Helper()
	cfg := Default()
	p, l, err := cfg.openAdmin(t.Context(), new(handover.Inherited), handover.Metrics, addr, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p, l
}

// One address cannot have all connections to a port for operators, unless only this machine
// reaches that.
func TestAdminConnections(t *testing.T) {
	for addr, limited := range map[string]bool{"0.0.0.0:0": true, "127.0.0.1:0": false} {
		_, l := openTestAdmin(t, addr)
		_, port, _ := net.SplitHostPort(l.Addr().String())
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				_, _ = io.WriteString(c, "x")
				go func() {
					_, _ = io.Copy(io.Discard, c) // until the client goes
					c.Close()
				}()
			}
		}()
		// served reports whether a new connection is.
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
		for range adminConnsPerSource {
			if !served(net.Dialer{}) {
				t.Errorf("%s: fewer than %d connections are served", addr, adminConnsPerSource)
			}
		}
		if ok := served(net.Dialer{}); ok == limited {
			t.Errorf("%s: that one more is served is %v", addr, ok)
		}
		if runtime.GOOS != "linux" { // it has more addresses of this machine
			continue
		}
		if !served(net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}) {
			t.Errorf("%s: another address is not served", addr)
		}
	}
}

// Advice on an address names the flag, and what is peculiar to it.
func TestListenErrors(t *testing.T) {
	for _, c := range []struct {
		flag string
		err  error
		want string
	}{
		{"metrics", syscall.EADDRINUSE, "that port; stop it, or choose another with --metrics"},
		{"sftp", syscall.EADDRINUSE, "on 22 most often sshd"},
		{"metrics", syscall.EACCES, "CAP_NET_BIND_SERVICE; try --metrics :9069"},
		{"http", syscall.EADDRNOTAVAIL, "no such address; \"ip address\" lists those it has"},
		{"metrics", syscall.EADDRNOTAVAIL, ":PORT is all of them"},
		{"https", syscall.EINVAL, "its interface, as in fe80::1%eth0"},
		{"metrics", syscall.EMFILE, "metrics: "},
	} {
		err := listenError(c.flag, &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", c.err)}, nil)
		if got := err.Error(); !strings.Contains(got, c.want) || !errors.Is(err, c.err) || !errors.Is(err, failure.Listen) {
			t.Errorf("%s, %v: %T, %v", c.flag, c.err, err, err)
		}
	}
}
