package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/certs"

	"github.com/haul-project/haul/tcp/events"
)

// A panic in Refused is logged and counted, and only ends the refused connection.
func TestRefusedPanics(t *testing.T) {
	const clients = 3
	for _, test := range []struct {
		refused uint64
		limit   func(*Server)
	}{
		{clients, func(s *Server) { s.Deny = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }},
		{clients - 1, func(s *Server) { s.MaxConns, s.Refuse = 1, true }},
		{clients - 1, func(s *Server) { s.MaxConnsPerSource = 1 }},
	} {
		for _, s := range []*Server{{Handle: echo}, {Driver: &events.Handler{OnData: lines}}} {
			test.limit(s)
			s.Refused = func(net.Addr, error) { panic("asked for") }
			at, stop := serve(t, s)
			for range clients {
				if c, err := net.Dial("tcp", at); err == nil { // it may already be refused
					t.Cleanup(func() { _ = c.Close() })
				}
			}
			eventually(t, "they are refused", func() bool { return s.Counters().Panics == test.refused })
			if c := s.Counters(); c.Refused != test.refused {
				t.Errorf("%+v", c)
			}
			s.Halt()
			if err := stop(); err != nil && !errors.Is(err, ErrCut) {
				t.Error(err)
			}
		}
	}
}

// At the limit for all addresses together, further connections wait, and each gets its turn.
func TestMaxConnsWait(t *testing.T) {
	var now, most atomic.Int64
	s := &Server{MaxConns: 3, Handle: func(_ context.Context, c net.Conn) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		echo(context.Background(), c)
		now.Add(-1)
	}}
	_, stop := serve(t, s, "127.0.0.1:0", "127.0.0.1:0")
	eventually(t, "it serves", func() bool { return len(s.runs.list()) == 1 })
	var others []string
	for _, so := range s.runs.list()[0].sockets {
		others = append(others, so.Addr().String())
	}
	done := make(chan string)
	for i := range 40 {
		go func() {
			c, err := net.Dial("tcp", others[i%2])
			if err != nil {
				done <- err.Error()
				return
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(patience))
			_, _ = io.WriteString(c, "hello")
			_ = c.(*net.TCPConn).CloseWrite()
			b, err := io.ReadAll(c)
			if err != nil {
				done <- err.Error()
			}
			done <- string(b)
		}()
	}
	for range 40 {
		if got := <-done; got != "hello" {
			t.Errorf("got %q", got)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if most.Load() > 3 || most.Load() == 0 {
		t.Errorf("%d at once", most.Load())
	}
	if c := s.Counters(); c.Refused > 0 || c.Accepted != 40 {
		t.Errorf("%+v", c)
	}
}

// gone returns how an unwanted connection ends.
func gone(c net.Conn) error {
	b := make([]byte, 1)
	_, err := c.Read(b)
	return err
}

func TestMaxConnsRefuse(t *testing.T) {
	why := make(chan error, 10)
	s := &Server{MaxConns: 2, Refuse: true, Refused: func(_ net.Addr, err error) { why <- err }, Handle: echo}
	at, _ := serve(t, s)
	one, _ := dial(t, at), dial(t, at)
	eventually(t, "two are served", func() bool { return s.Counters().Conns == 2 })
	for range 3 {
		c, err := net.Dial("tcp", at) // may already fail because of the reset
		if err == nil {
			err = gone(c)
			_ = c.Close()
		}
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the third: %v", err)
		}
		if err := <-why; err != ErrFull {
			t.Errorf("reported: %v", err)
		}
	}
	if n := s.Counters().Refused; n != 3 {
		t.Errorf("%d refused", n)
	}
	_ = one.Close()
	eventually(t, "the place is another's", func() bool { return serves(at) })
}

// works reports whether a connection is served.
func works(c net.Conn) bool {
	_, _ = io.WriteString(c, "x")
	_, err := io.ReadFull(c, make([]byte, 1))
	return err == nil
}

// serves reports whether a new connection is served. A refused client may notice before the
// connection is made.
func serves(at string) bool {
	c, err := net.Dial("tcp", at)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	return works(c)
}

func TestMaxConnsPerSource(t *testing.T) {
	type refusal struct {
		from net.Addr
		why  error
	}
	refused := make(chan refusal, 10)
	s := &Server{MaxConnsPerSource: 2, Refused: func(from net.Addr, why error) { refused <- refusal{from, why} }, Handle: echo}
	at, _ := serve(t, s)
	from := func(addr string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}
		c, err := d.Dial("tcp", at)
		if err != nil {
			t.Skipf("no such source here: %v", err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(patience))
		return c
	}
	a, b := from("127.0.0.1"), from("127.0.0.1")
	if !works(a) || !works(b) {
		t.Fatal("two of one source are not served")
	}
	if serves(at) { // even from the same address
		t.Error("a third is")
	}
	if r := <-refused; r.why != ErrSourceFull || !strings.HasPrefix(r.from.String(), "127.0.0.1:") {
		t.Errorf("reported: %+v", r)
	}
	if !works(from("127.0.0.2")) {
		t.Error("another source is not")
	}
	if n := s.Counters().Refused; n != 1 {
		t.Errorf("%d refused", n)
	}
	_ = a.Close()
	eventually(t, "the place is another's", func() bool { return works(from("127.0.0.1")) })
}

// A connection that is refused because of its source's limit uses no place: however often that
// happens, others are served.
func TestMaxConnsAndPerSource(t *testing.T) {
	s := &Server{MaxConns: 2, MaxConnsPerSource: 1, Refuse: true, Handle: echo}
	at, _ := serve(t, s)
	if !works(dial(t, at)) {
		t.Fatal("the first is not served")
	}
	for i := range 5 {
		if serves(at) {
			t.Errorf("number %d of one source is served", i+2)
		}
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	c, err := d.Dial("tcp", at)
	if err != nil {
		t.Skipf("no such source here: %v", err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if !works(c) {
		t.Error("another source is not served, and one of two places is free")
	}
}

// timed serves one connection whose handler reads, and returns the result of the read.
func timed(t *testing.T, s *Server, client func(net.Conn)) error {
	t.Helper()
	result := make(chan error, 1)
	handle := s.Handle
	s.Handle = func(ctx context.Context, c net.Conn) {
		if handle != nil {
			handle(ctx, c)
		}
		_, err := io.Copy(onlyWriter{io.Discard}, onlyReader{c})
		result <- err
	}
	at, _ := serve(t, s)
	c := dial(t, at)
	if client != nil {
		client(c)
	}
	select {
	case err := <-result:
		if err != nil && s.Counters().TimedOut != 1 {
			t.Errorf("%+v", s.Counters())
		}
		return err
	case <-time.After(patience):
		t.Fatal("the connection was not ended")
		return nil
	}
}

const brief = 30 * time.Millisecond

func TestTimes(t *testing.T) {
	is := func(err, want error) {
		t.Helper()
		n, ok := errors.AsType[net.Error](err)
		if !errors.Is(err, want) || !errors.Is(err, os.ErrDeadlineExceeded) || !ok || !n.Timeout() {
			t.Errorf("ended by %v, not by %v", err, want)
		}
	}
	is(timed(t, &Server{FirstByteTimeout: brief}, nil), ErrSilent)
	is(timed(t, &Server{IdleTimeout: brief}, func(c net.Conn) { _, _ = io.WriteString(c, "x") }), ErrIdle)
	// A client that does not read counts as idle too.
	is(timed(t, &Server{IdleTimeout: brief, Handle: func(_ context.Context, c net.Conn) {
		for {
			if _, err := c.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	}}, nil), ErrIdle)
	// A client that sends is not silent, and a handler that computes is not idle.
	inTime(t, func(limit time.Duration) error {
		return timed(t, &Server{FirstByteTimeout: limit, Handle: func(_ context.Context, c net.Conn) {
			_, _ = io.ReadFull(c, make([]byte, 1))
		}}, func(c net.Conn) {
			_, _ = io.WriteString(c, "x")
			time.Sleep(2 * limit)
			_ = c.(*net.TCPConn).CloseWrite()
		})
	}, brief, 10*brief, 100*brief)
	inTime(t, func(limit time.Duration) error {
		return timed(t, &Server{IdleTimeout: limit, Handle: func(context.Context, net.Conn) { time.Sleep(3 * limit) }}, func(c net.Conn) {
			_ = c.(*net.TCPConn).CloseWrite()
		})
	}, brief, 10*brief, 100*brief)
}

// inTime runs something that a limit must not end. On a busy machine a client may be late without
// any fault of the server, so it is tried again with more time.
func inTime(t *testing.T, f func(limit time.Duration) error, limits ...time.Duration) {
	t.Helper()
	var err error
	for _, limit := range limits {
		if err = f(limit); err == nil {
			return
		}
		t.Logf("in %v: %v", limit, err)
	}
	t.Error(err)
}

// Thousands of silent clients use only what is permitted, and others are served meanwhile.
func TestSilentClients(t *testing.T) {
	inTime(t, func(limit time.Duration) error {
		s := &Server{FirstByteTimeout: limit, Handle: echo}
		at, _ := serve(t, s)
		const silent = 400
		for range silent {
			dial(t, at)
		}
		for range 10 {
			if !serves(at) {
				return errors.New("who speaks is not served")
			}
		}
		eventually(t, "the silent ones are ended", func() bool { c := s.Counters(); return c.TimedOut == silent && c.Conns == 0 })
		return nil
	}, 300*time.Millisecond, 3*time.Second)
}

// Behind a trusted proxy the header names the client; headers of others are data.
func TestProxyHeader(t *testing.T) {
	var remote, local atomic.Value
	s := &Server{
		Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, MaxConnsPerSource: 1,
		HandshakeTimeout: patience,
		Handle: func(_ context.Context, c net.Conn) {
			remote.Store(c.RemoteAddr().String())
			local.Store(c.LocalAddr().String())
			echo(context.Background(), c)
		},
	}
	at, _ := serve(t, s)
	// Each client has its own connection: the only one that it may have can end later than its
	// answer.
	for client, header := range map[string]string{
		"192.0.2.7:4711": "PROXY TCP4 192.0.2.7 198.51.100.1 4711 80\r\n",
		"192.0.2.8:4711": proxyTwo(0x21, 0x11, "\xc0\x00\x02\x08\xc6\x33\x64\x01\x12\x67\x00\x50"),
	} {
		if got := ask(t, at, header+"hello"); got != "hello" {
			t.Errorf("got %q", got)
		}
		if r, l := remote.Load(), local.Load(); r != client || l != "198.51.100.1:80" {
			t.Errorf("from %v to %v", r, l)
		}
	}
	eventually(t, "both have ended", func() bool { return s.Counters().Conns == 0 })
	// Without a header, or with a bad one, the connection ends and never reaches the handler.
	remote.Store("")
	for _, bad := range []string{"GET / HTTP/1.1\r\n", "PROXY TCP4 1.2.3.4\r\n", strings.Repeat("A", 5000)} {
		c := dial(t, at)
		_, _ = io.WriteString(c, bad)
		if b, _ := io.ReadAll(c); len(b) > 0 {
			t.Errorf("%q is answered with %q", bad, b)
		}
	}
	hasty := &Server{Proxies: s.Proxies, HandshakeTimeout: brief, Handle: s.Handle}
	its, _ := serve(t, hasty)
	if err := gone(dial(t, its)); err != io.EOF {
		t.Errorf("a silent proxy: %v", err)
	}
	if remote.Load() != "" {
		t.Errorf("the handler was called for %v", remote.Load())
	}
	// The limit applies to the client, not to the proxy.
	var held []net.Conn
	for _, client := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.1"} {
		c := dial(t, at)
		_, _ = io.WriteString(c, "PROXY TCP4 "+client+" 198.51.100.1 1 80\r\nx")
		held = append(held, c)
	}
	ended := 0
	for _, c := range held {
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			ended++
		}
	}
	if ended != 1 {
		t.Errorf("%d of two clients with three connections were refused", ended)
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.3")}}
	if c, err := d.Dial("tcp", at); err == nil {
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		line := "PROXY TCP4 192.0.2.9 198.51.100.1 4711 80\r\n"
		_, _ = io.WriteString(c, line)
		b := make([]byte, len(line))
		if _, err := io.ReadFull(c, b); err != nil || string(b) != line {
			t.Errorf("a stranger's header: %q, %v", b, err)
		}
	}
}

// A client that Allow or Deny refuses does not reach TLS, and neither does a client that a proxy
// names.
func TestAllowAndDeny(t *testing.T) {
	asked := make(chan string, 10)
	cert, err := certs.SelfSigned("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{
		Proxies:          []netip.Prefix{netip.MustParsePrefix("127.0.0.3/32")},
		HandshakeTimeout: patience,
		Allow:            []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		Deny:             []netip.Prefix{netip.MustParsePrefix("192.0.2.2/32")},
		Refused:          func(from net.Addr, why error) { asked <- fmt.Sprint(from, " ", why) },
		TLS: &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			asked <- "TLS"
			return &cert, nil
		}},
		Handle: echo,
	}
	at, _ := serve(t, s)
	for _, tt := range []struct{ local, header, from string }{
		{"127.0.0.1", "", "127.0.0.1:"},
		{"127.0.0.3", "PROXY TCP4 192.0.2.2 198.51.100.1 1 443\r\n", "192.0.2.2:1"},
		{"127.0.0.3", "PROXY TCP6 ::ffff:192.0.2.2 ::ffff:198.51.100.1 1 443\r\n", "192.0.2.2:1"},
		{"127.0.0.3", "PROXY TCP4 192.0.2.1 198.51.100.1 1 443\r\n", "192.0.2.1:1"},
	} {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(tt.local)}}
		c, err := d.Dial("tcp", at)
		if err != nil {
			t.Skip(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(c, tt.header)
		admitted := strings.HasPrefix(tt.from, "192.0.2.1:")
		err = tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake()
		if (err == nil) != admitted {
			t.Errorf("%+v: %v", tt, err)
		}
		want := tt.from
		if admitted {
			want = "TLS"
		}
		if got := <-asked; !strings.HasPrefix(got, want) || strings.Contains(got, ErrDenied.Error()) == admitted {
			t.Errorf("%+v: %s", tt, got)
		}
	}
	if len(asked) > 0 {
		t.Errorf("then %s", <-asked)
	}
	if n := s.Counters().Refused; n != 3 {
		t.Errorf("%d are refused", n)
	}
}
