package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
)

// wantAddrs checks that both addresses of a connection match those of its client.
func wantAddrs(t *testing.T, ours net.Conn, remote, local string) {
	t.Helper()
	r, ok := ours.RemoteAddr().(*net.TCPAddr)
	l, ok2 := ours.LocalAddr().(*net.TCPAddr)
	if !ok || !ok2 || r.String() != remote || l.String() != local {
		t.Errorf("from %v to %v, and it was from %s to %s", ours.RemoteAddr(), ours.LocalAddr(), remote, local)
	}
}

// Addresses that were requested do not change after the connection has ended, even if its pooled
// state serves another client.
func TestAddressesOutliveClose(t *testing.T) {
	ours, theirs := pair(t, Options{})
	remote, local := theirs.LocalAddr().String(), theirs.RemoteAddr().String()
	wantAddrs(t, ours, remote, local)
	if err := ours.Close(); err != nil {
		t.Fatal(err)
	}
	wantAddrs(t, ours, remote, local)

	var first net.Conn
	var once sync.Once
	over := make(chan struct{})
	s := &Server{Options: Options{Sockets: 1}, Handle: func(_ context.Context, c net.Conn) {
		once.Do(func() {
			_, _ = c.RemoteAddr(), c.LocalAddr()
			first = c
			close(over)
		})
		echo(context.Background(), c)
	}}
	at, _ := serve(t, s)
	c := dial(t, at)
	remote = c.LocalAddr().String()
	<-over
	_ = c.Close()
	eventually(t, "it ends", func() bool { return s.Counters().Conns == 0 })
	if !works(dial(t, at)) {
		t.Fatal("the next is not served")
	}
	wantAddrs(t, first, remote, at)
}

// One address was requested and the other was not.
func TestOneAddressOutlivesClose(t *testing.T) {
	ours, theirs := pair(t, Options{})
	want := ours.RemoteAddr().String()
	_ = ours.Close()
	if got := ours.RemoteAddr().String(); got != want || got != theirs.LocalAddr().String() {
		t.Errorf("%s was %s", got, want)
	}
	if got := ours.LocalAddr(); got == nil || got.String() != "closed" {
		t.Errorf("an address not asked for before is %v", got)
	}
}

// After a call that fails because another goroutine closed the connection, the addresses are
// still available for the log.
func TestAddressesBehindAnError(t *testing.T) {
	ours, theirs := pair(t, Options{})
	failed := make(chan error)
	go func() { _, err := ours.Read(make([]byte, 1)); failed <- err }()
	eventually(t, "it waits", func() bool { return ours.c.WaitsToRead() })
	_ = ours.Close()
	if err := <-failed; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read: %v", err)
	}
	wantAddrs(t, ours, theirs.LocalAddr().String(), theirs.RemoteAddr().String())
}

// A program with net/http identifies its connections by their addresses when they end.
func TestAddressesInConnState(t *testing.T) {
	server, client := testTLS()
	for _, secure := range []bool{false, true} {
		s := &Server{}
		scheme := "http://"
		if secure {
			s.TLS, scheme = server, "https://"
		}
		l := listenFor(t, s)
		var mu sync.Mutex
		begun, ended := map[string]bool{}, map[string]bool{}
		h := http.Server{
			Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
			ConnState: func(c net.Conn, state http.ConnState) {
				mu.Lock()
				defer mu.Unlock()
				at := c.RemoteAddr().(*net.TCPAddr).String()
				switch state {
				case http.StateNew:
					begun[at] = true
				case http.StateClosed:
					ended[at] = true
				}
			},
		}
		go func() { _ = h.Serve(l) }()
		const conns = 5
		for range conns {
			transport := &http.Transport{TLSClientConfig: client}
			c := http.Client{Transport: transport, Timeout: patience}
			resp, err := c.Get(scheme + l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			transport.CloseIdleConnections()
		}
		eventually(t, "all have ended", func() bool { mu.Lock(); defer mu.Unlock(); return len(ended) == conns })
		_ = h.Close()
		for at := range ended {
			if !begun[at] {
				t.Errorf("TLS %t: %s has ended, and never begun", secure, at)
			}
		}
	}
}

// The addresses of a connection with TLS are available in the same way.
func TestAddressesOfTLS(t *testing.T) {
	server, client := testTLS()
	type pair struct{ before, after string }
	got := make(chan pair, 1)
	s := &Server{TLS: server, Handle: func(_ context.Context, c net.Conn) {
		before := c.RemoteAddr().String()
		_ = c.Close()
		got <- pair{before, c.RemoteAddr().String()}
	}}
	at, _ := serve(t, s)
	raw := dial(t, at)
	_ = tls.Client(raw, client).Handshake()
	if p := <-got; p.before != raw.LocalAddr().String() || p.after != p.before {
		t.Errorf("%+v, and the client is %v", p, raw.LocalAddr())
	}
}
