package meter

import (
	"net"
	"net/http"
	"strings"
	"testing"
)

// connServer is a server with connections from some ports.
func connServer(c ConnCounters, ports ...int) ConnServer {
	c.Conns = len(ports)
	return ConnServer{
		Counters: func() ConnCounters { return c },
		Peers: func(yield func(Peer) bool) {
			for _, p := range ports {
				if !yield(Peer{Remote: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: p}}) {
					return
				}
			}
		},
	}
}

// The counters of servers are shown under their protocol, and their connections listed.
func TestConnections(t *testing.T) {
	r := New(Config{})
	r.Connections(HTTP, connServer(ConnCounters{Accepted: 5, Cut: 2, Handshakes: 1}, 1, 2))
	r.Connections(HTTP, connServer(ConnCounters{Accepted: 1, Refused: 7, TimedOut: 8, AcceptErrors: 9, BadHandshakes: 10, Panics: 11}, 3))
	r.Connections("gopher", connServer(ConnCounters{}, 4))
	text := scrape(t, r.Handler(), http.MethodGet, nil).Body.String()
	for _, l := range []string{
		`haul_connections{protocol="http"} 3`, `haul_connections{protocol="other"} 1`, `haul_tls_handshakes{protocol="http"} 1`,
		`haul_connections_accepted_total{protocol="http"} 6`, `haul_connections_refused_total{protocol="http"} 7`,
		`haul_connections_timed_out_total{protocol="http"} 8`, `haul_connections_accept_errors_total{protocol="http"} 9`,
		`haul_connections_bad_handshakes_total{protocol="http"} 10`, `haul_connections_panics_total{protocol="http"} 11`,
		`haul_connections_cut_total{protocol="http"} 2`,
	} {
		if !strings.Contains(text, "\n"+l+"\n") {
			t.Errorf("no %s in\n%s", l, text)
		}
	}
	want := map[string]Protocol{"127.0.0.1:1": HTTP, "127.0.0.1:2": HTTP, "127.0.0.1:3": HTTP, "127.0.0.1:4": "other"}
	for c := range r.LiveConns() {
		if p := want[c.Remote.String()]; p != c.Protocol {
			t.Errorf("%v speaks %q, want %q", c.Remote, c.Protocol, p)
		}
		delete(want, c.Remote.String())
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
	n := 0
	for range r.LiveConns() {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d were listed for one", n)
	}
}

func TestNoConnections(t *testing.T) {
	var none *Registry
	none.Connections(HTTP, connServer(ConnCounters{}, 1))
	for range none.LiveConns() {
		t.Error("a nil Registry lists a connection")
	}
}
