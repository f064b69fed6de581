package tcp

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/certs"
)

// Connections accepted before a Listener was closed are still returned: their requests may be on
// their way.
func TestListenerGivesAll(t *testing.T) {
	s := &Server{}
	l := listenFor(t, s)
	const clients = 20
	for range clients {
		dial(t, l.Addr().String())
	}
	eventually(t, "accepted", func() bool { return s.Counters().Accepted == clients })
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	for i := range clients {
		c, err := l.Accept()
		if err != nil {
			t.Fatalf("after %d of %d connections: %v", i, clients, err)
		}
		_ = c.Close()
	}
	for range 2 {
		if c, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v, %v; want that it is closed", c, err)
		}
	}
}

// If a program never calls Accept again, connections do not stay open for ever.
func TestListenerLeft(t *testing.T) {
	s := &Server{}
	l := listenFor(t, s)
	dial(t, l.Addr().String())
	eventually(t, "accepted", func() bool { return s.Counters().Accepted == 1 })
	_ = l.Close()
	eventually(t, "let go", func() bool { return s.Counters().Conns == 0 })
}

// A Listener closes even if an acceptor waits for a place and all are in use.
func TestListenerClosesWhenFull(t *testing.T) {
	s := &Server{MaxConns: 1, Options: Options{Sockets: 1}}
	l := listenFor(t, s)
	dial(t, l.Addr().String())
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	dial(t, l.Addr().String())
	eventually(t, "the second waits for a place", func() bool {
		stacks := make([]byte, 1<<20)
		return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte(".takePlace("))
	})
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it does not close")
	}
}

// Drain returns when the last connection has ended, and Accept waits until Close is called.
func TestListenerDrain(t *testing.T) {
	s := &Server{}
	l := listenFor(t, s)
	dial(t, l.Addr().String())
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	l.Drain(over) // does not wait for c
	if live := s.Counters().Conns; live != 1 {
		t.Errorf("%d connections", live)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		failed <- err
	}()
	_ = c.Close()
	l.Drain(t.Context())
	if live := s.Counters().Conns; live != 0 {
		t.Errorf("%d connections after the last", live)
	}
	select {
	case err := <-failed:
		t.Fatalf("before Close: %v", err)
	default:
	}
	_ = l.Close()
	if err := <-failed; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// Split accepts connections that agree on SplitALPN, and no others.
func TestListenerSplit(t *testing.T) {
	cert, err := certs.SelfSigned("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{SplitALPN: "b", TLS: &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"a", "b"}}}
	l := listenFor(t, s)
	defer l.Close()
	var all sync.WaitGroup
	defer all.Wait()
	for range 3 {
		for protocol, from := range map[string]net.Listener{"a": l, "b": l.Split()} {
			c := tls.Client(dial(t, l.Addr().String()), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}})
			all.Go(func() {
				if err := c.Handshake(); err != nil {
					t.Error(err)
				}
			})
			got, err := from.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if p := got.(*tls.Conn).ConnectionState().NegotiatedProtocol; p != protocol {
				t.Errorf("%q is accepted as %q", p, protocol)
			}
			_ = got.Close()
		}
	}
}

// FirstBytes gets the client's first data or, with a PROXY header, the first data after that header.
func TestFirstBytes(t *testing.T) {
	heard := make(chan string, 10)
	s := &Server{
		Proxies:    []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		FirstBytes: func(c *Conn, b []byte) { heard <- c.RemoteAddr().String() + " " + string(b) },
		Handle:     func(_ context.Context, c net.Conn) { _, _ = io.Copy(c, onlyReader{c}) },
	}
	at, _ := serve(t, s)
	c := dial(t, at)
	_, _ = io.WriteString(c, "PROXY TCP4 192.0.2.7 198.51.100.1 4711 80\r\nhello")
	for _, again := range []string{"", "again"} {
		_, _ = io.WriteString(c, again)
		if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-heard; got != "192.0.2.7:4711 hello" || len(heard) > 0 {
		t.Errorf("heard %q, and %d times more", got, len(heard))
	}
}
