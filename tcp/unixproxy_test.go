package tcp

import (
	"context"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// dialUnix connects to a unix socket.
func dialUnix(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c.(*net.UnixConn)
}

// whois serves at a unix socket and over TCP. It answers with the client's address, its own
// address and the received text.
func whois(t *testing.T, s *Server) (path, at string) {
	t.Helper()
	s.Handle = func(_ context.Context, c net.Conn) {
		said, _ := io.ReadAll(c)
		_, _ = io.WriteString(c, c.RemoteAddr().String()+" to "+c.LocalAddr().String()+": "+string(said))
	}
	path = filepath.Join(t.TempDir(), "s")
	at, _ = serve(t, s, "127.0.0.1:0", "unix:"+path)
	return path, at
}

// askUnix sends text in two pieces, and returns the complete answer.
func askUnix(t *testing.T, path, text string, cut int) string {
	t.Helper()
	c := dialUnix(t, path)
	_, _ = io.WriteString(c, text[:cut])
	_, _ = io.WriteString(c, text[cut:])
	_ = c.CloseWrite()
	answer, _ := io.ReadAll(c)
	return string(answer)
}

// A trusted proxy on a unix socket names its clients. For TCP connections the addresses are those
// of the peers.
func TestUnixProxies(t *testing.T) {
	s := &Server{UnixProxies: true}
	path, at := whois(t, s)
	for _, tt := range goodProxies {
		want := "@ to " + path + ": hello"
		if tt.want.Source.IsValid() {
			want = tt.want.Source.String() + " to " + tt.want.Destination.String() + ": hello"
		}
		for _, cut := range []int{0, 1, len(tt.text) / 2, len(tt.text), len(tt.text) + 2} {
			got := askUnix(t, path, tt.text+"hello", cut)
			if !tt.want.Source.IsValid() && !strings.HasPrefix(got, "@") {
				got = "@" + got // package net reports "@" or "" for a peer without a name
			}
			if got != want {
				t.Errorf("%s, cut at %d: %q, want %q", tt.name, cut, got, want)
			}
		}
	}
	for _, tt := range hostileProxies {
		if got := askUnix(t, path, tt.text, 0); got != "" {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
	header := goodProxies[0].text
	if got := ask(t, at, header); !strings.HasPrefix(got, "127.0.0.1:") || !strings.HasSuffix(got, ": "+header) {
		t.Errorf("by TCP: %q", got)
	}
}

// Without UnixProxies, everything that a peer on a unix socket sends is data, for any networks.
func TestUnixPeersAreNoProxies(t *testing.T) {
	everywhere := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	for _, s := range []*Server{{}, {Proxies: everywhere}, {Proxies: everywhere, MaxConnsPerSource: 1}} {
		path, _ := whois(t, s)
		header := goodProxies[0].text
		if got := askUnix(t, path, header, 0); !strings.HasSuffix(got, " to "+path+": "+header) {
			t.Errorf("%q", got)
		}
	}
}

// The limits on sources, and the timeout for a header, also apply to the clients of a proxy on a
// unix socket.
func TestUnixProxyLimits(t *testing.T) {
	var handled atomic.Int64
	handle := func(ctx context.Context, c net.Conn) {
		handled.Add(1)
		echo(ctx, c)
	}
	path := filepath.Join(t.TempDir(), "hasty")
	serve(t, &Server{UnixProxies: true, HandshakeTimeout: brief, Handle: handle}, "unix:"+path)
	for _, begin := range []string{"", goodProxies[0].text[:10], proxyV2} {
		c := dialUnix(t, path)
		_, _ = io.WriteString(c, begin)
		if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
			t.Errorf("%q, and then silence: %q, %v", begin, b, err)
		}
	}
	if n := handled.Load(); n != 0 {
		t.Errorf("%d handlers for those that are silent", n)
	}
	s := &Server{UnixProxies: true, MaxConnsPerSource: 1, HandshakeTimeout: patience, Handle: handle}
	path = filepath.Join(t.TempDir(), "s")
	serve(t, s, "unix:"+path)
	refused := 0
	for _, client := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.1"} {
		c := dialUnix(t, path)
		_, _ = io.WriteString(c, "PROXY TCP4 "+client+" 198.51.100.1 1 80\r\nx")
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			refused++
		}
	}
	if refused != 1 || s.Counters().Refused != 1 {
		t.Errorf("of two clients with three connections %d were refused: %+v", refused, s.Counters())
	}
}
