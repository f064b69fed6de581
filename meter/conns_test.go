package meter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/haul-project/haul/tcp"
)

// What a server counts is shown under its protocol, and its connections are listed.
func TestConnections(t *testing.T) {
	r := New(Config{})
	first, more := tcpServer(t), tcpServer(t)
	r.Connections(HTTP, first.s)
	r.Connections(HTTP, more.s)
	other := tcpServer(t)
	r.Connections("gopher", other.s)
	clients := map[string]Protocol{}
	for _, at := range []*served{first, first, more, other} {
		c := at.connect(t)
		clients[c.LocalAddr().String()] = HTTP
		if at == other {
			clients[c.LocalAddr().String()] = "other"
		}
	}
	has := func(lines ...string) {
		t.Helper()
		text := scrape(t, r.Handler(), http.MethodGet, nil).Body.String()
		for _, l := range lines {
			if !strings.Contains(text, "\n"+l+"\n") {
				t.Errorf("no %s in\n%s", l, text)
			}
		}
	}
	has(`haul_connections{protocol="http"} 3`, `haul_connections{protocol="other"} 1`, `haul_connections_accepted_total{protocol="http"} 3`,
		`haul_connections_refused_total{protocol="http"} 0`, `haul_tls_handshakes{protocol="http"} 0`)
	for c := range r.LiveConns() {
		if p := clients[c.Remote.String()]; p != c.Protocol {
			t.Errorf("%v speaks %q, want %q", c.Remote, c.Protocol, p)
		}
		delete(clients, c.Remote.String())
	}
	if len(clients) > 0 {
		t.Errorf("not listed: %v", clients)
	}
	n := 0
	for range r.LiveConns() {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d were listed for one", n)
	}
	first.end(t)
	has(`haul_connections{protocol="http"} 1`, `haul_connections_accepted_total{protocol="http"} 3`, `haul_connections_cut_total{protocol="http"} 2`)
}

func TestNoConnections(t *testing.T) {
	var none *Registry
	none.Connections(HTTP, &tcp.Server{})
	for range none.LiveConns() {
		t.Error("a connection of nobody")
	}
}

// A served server serves, and its connections last until it ends.
type served struct {
	s    *tcp.Server
	at   net.Addr
	stop context.CancelFunc
	over chan error
}

func tcpServer(t *testing.T) *served {
	t.Helper()
	at, err := tcp.Listen(t.Context(), "127.0.0.1:0", tcp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	s := &tcp.Server{Grace: 1, Handle: func(_ context.Context, c net.Conn) {
		var b [1]byte
		for {
			if _, err := c.Read(b[:]); err != nil {
				return
			}
			if _, err := c.Write(b[:]); err != nil {
				return
			}
		}
	}}
	v := &served{s: s, at: at.Addr(), stop: stop, over: make(chan error, 1)}
	go func() { v.over <- s.Serve(ctx, at) }()
	t.Cleanup(stop)
	return v
}

// connect returns a connection that is served.
func (v *served) connect(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", v.at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := fmt.Fprint(c, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return c
}

func (v *served) end(t *testing.T) {
	t.Helper()
	v.stop()
	if err := <-v.over; !errors.Is(err, tcp.ErrCut) {
		t.Errorf("it ended by %v", err)
	}
}
