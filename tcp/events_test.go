package tcp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haul-project/haul/tcp/events"
)

// An ends counts the calls of OnEnd by reason.
type ends struct {
	mu  sync.Mutex
	why []error
}

func (n *ends) note(_ *events.Conn, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.why = append(n.why, err)
}

func (n *ends) all() []error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]error(nil), n.why...)
}

// want waits until a number of connections have ended, all of them with the error why.
func (n *ends) want(t *testing.T, count int, why error) {
	t.Helper()
	eventually(t, fmt.Sprint(count, " connections end"), func() bool { return len(n.all()) >= count })
	for _, err := range n.all() {
		if !errors.Is(err, why) || len(n.all()) != count {
			t.Errorf("%d ends, one with %v; want %d with %v", len(n.all()), err, count, why)
		}
	}
}

// lines answers a line with the same line, "big" with bigAnswer bytes, "quit" by closing, "panic"
// with a panic, and "exit" by ending its goroutine.
func lines(c *events.Conn, data []byte) int {
	line, _, whole := bytes.Cut(data, []byte{'\n'})
	if !whole {
		return 0
	}
	switch string(line) {
	case "big":
		if left, _ := c.State.(int); left > 0 {
			c.State = left - 1
			_, _ = c.Write(make([]byte, bigPart))
			c.Again()
			if left > 1 {
				return 0
			}
		} else {
			c.State = bigAnswer / bigPart
			c.Again()
			return 0
		}
	case "quit":
		_, _ = c.Write([]byte("bye\n"))
		c.Close()
	case "panic":
		panic("asked for")
	case "exit":
		runtime.Goexit()
	default:
		_, _ = c.Write(data[:len(line)+1])
	}
	return len(line) + 1
}

const bigPart = 64 << 10

// Requests may arrive in one piece, byte by byte, or many at once. The last line may lack its line
// break.
func TestEvents(t *testing.T) {
	var n ends
	s := &Server{Driver: &events.Handler{OnData: lines, OnEnd: n.note}, Options: Options{Sockets: 1}}
	at, stop := serve(t, s)
	if got := ask(t, at, "hello\nworld\nrest"); got != "hello\nworld\n" {
		t.Errorf("got %q", got)
	}
	many := strings.Repeat("line\n", 100_000)
	c := dial(t, at)
	go func() {
		_, _ = io.WriteString(c, many)
		_ = c.CloseWrite()
	}()
	if got, err := io.ReadAll(c); string(got) != many || err != nil {
		t.Errorf("%d bytes of %d, %v", len(got), len(many), err)
	}
	c = dial(t, at)
	b := make([]byte, 6)
	for range 3 {
		for _, r := range "byte.\n" {
			_, _ = io.WriteString(c, string(r))
			time.Sleep(time.Millisecond)
		}
		if _, err := io.ReadFull(c, b); string(b) != "byte.\n" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
	}
	_, _ = io.WriteString(c, "quit\nmore\n")
	if got, err := io.ReadAll(c); string(got) != "bye\n" {
		t.Errorf("after quit: %q, %v", got, err)
	}
	n.want(t, 3, nil)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if c := s.Counters(); c.Accepted != 3 || c.Conns != 0 || c.Panics != 0 {
		t.Errorf("%+v", c)
	}
}

// The handler is called when a connection opens, so it may greet; its state is kept; and
// addresses are available until the end.
func TestEventsGreeting(t *testing.T) {
	var end atomic.Value
	s := &Server{Driver: &events.Handler{OnEnd: func(c *events.Conn, err error) { end.Store(fmt.Sprint(c.RemoteAddr(), c.State, err)) }, OnData: func(c *events.Conn, data []byte) int {
		if c.State == nil {
			c.State = 0
			fmt.Fprintf(c, "welcome to %v\n", c.LocalAddr())
		} else if c.Ended() {
			fmt.Fprintf(c, "%d bytes from %v\n", c.State, c.RemoteAddr())
		}
		c.State = c.State.(int) + len(data)
		return len(data)
	}}}
	at, _ := serve(t, s)
	c := dial(t, at)
	want := "welcome to " + at + "\n"
	b := make([]byte, len(want))
	if _, err := io.ReadFull(c, b); string(b) != want || err != nil {
		t.Fatalf("%q, %v", b, err)
	}
	_, _ = io.WriteString(c, "12345")
	_ = c.CloseWrite()
	from := c.LocalAddr().String()
	if b, err := io.ReadAll(c); string(b) != "5 bytes from "+from+"\n" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	eventually(t, "OnEnd", func() bool { return end.Load() != nil })
	if got := end.Load(); got != from+" 5 <nil>" {
		t.Errorf("OnEnd: %q", got)
	}
}

// A client that does not read its answers gets no more of them, while others are served. It can
// still read its answers later.
func TestEventsSlowReader(t *testing.T) {
	var n ends
	s := &Server{Driver: &events.Handler{OnData: lines, OnEnd: n.note}, Options: Options{Sockets: 1, SendBuffer: 64 << 10}}
	at, _ := serve(t, s)
	slow := dial(t, at)
	const answers, others = 3, 20
	_, _ = io.WriteString(slow, strings.Repeat("big\n", answers)+"end\n")
	for range others {
		if got := ask(t, at, "hello\n"); got != "hello\n" {
			t.Fatalf("%q", got)
		}
	}
	_ = slow.CloseWrite()
	got, err := io.ReadAll(slow)
	if want := answers*bigAnswer + len("end\n"); len(got) != want || err != nil {
		t.Errorf("%d bytes of %d, %v", len(got), want, err)
	}
	n.want(t, others+1, nil)
}

// A peer that sends requests and reads nothing is stopped by TCP's window: the server receives no
// more from it. It is ended after IdleTimeout.
func TestEventsFlood(t *testing.T) {
	var n ends
	var calls atomic.Int64
	h := &events.Handler{OnEnd: n.note}
	s := &Server{Driver: h, IdleTimeout: brief, Options: Options{SendBuffer: 64 << 10}}
	h.OnData = func(c *events.Conn, data []byte) int {
		calls.Add(1)
		return lines(c, data)
	}
	at, _ := serve(t, s)
	c := dial(t, at)
	line := []byte(strings.Repeat("x", 63) + "\n")
	flood := bytes.Repeat(line, 1<<16)
	_, err := c.Write(flood) // until the server resets it
	for err == nil {
		_, err = c.Write(flood)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the flood is not ended")
	}
	n.want(t, 1, ErrIdle)
	if s.Counters().TimedOut != 1 {
		t.Errorf("%+v", s.Counters())
	}
}

// Clients that vanish, even in the middle of a request or an answer, leave nothing behind.
func TestEventsReset(t *testing.T) {
	var n ends
	s := &Server{Driver: &events.Handler{OnData: lines, OnEnd: n.note}}
	at, stop := serve(t, s)
	const rounds = 50
	for i := range rounds {
		c := dial(t, at)
		switch i % 4 {
		case 0:
			_, _ = io.WriteString(c, "half")
		case 1:
			_, _ = io.WriteString(c, "big\n")
			_, _ = io.ReadFull(c, make([]byte, 1000))
		case 2:
			_, _ = io.WriteString(c, "whole\n")
		}
		reset(c)
	}
	eventually(t, "all have ended", func() bool {
		return len(n.all()) == rounds || s.Counters().Conns == 0 && s.Counters().Accepted == rounds
	})
	if got := ask(t, at, "hello\n"); got != "hello\n" {
		t.Errorf("%q", got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A panic, or the end of the goroutine, ends one connection. The others on the loop continue.
func TestEventsPanic(t *testing.T) {
	var n ends
	s := &Server{Driver: &events.Handler{OnData: lines, OnEnd: n.note}, Options: Options{Sockets: 1}}
	at, _ := serve(t, s)
	lives := dial(t, at)
	for i, bad := range []string{"panic\n", "exit\n", "panic\n"} {
		c := dial(t, at)
		_, _ = io.WriteString(c, "x\n"+bad+"more\n")
		if b, _ := io.ReadAll(c); string(b) != "x\n" && len(b) > 0 {
			t.Errorf("%q", b)
		}
		n.want(t, i+1, events.ErrPanicked)
		_, _ = io.WriteString(lives, "ok\n")
		if _, err := io.ReadFull(lives, make([]byte, 3)); err != nil {
			t.Fatalf("another connection, after %q: %v", bad, err)
		}
	}
	eventually(t, "two panics, and one connection left", func() bool { c := s.Counters(); return c.Panics == 2 && c.Conns == 1 })
	wrong := &Server{Driver: &events.Handler{OnData: func(_ *events.Conn, data []byte) int { return len(data) + 1 }, OnEnd: func(*events.Conn, error) { panic("again") }}}
	at, _ = serve(t, wrong)
	_, _ = io.ReadAll(dial(t, at))
	eventually(t, "both panics are counted", func() bool { return wrong.Counters().Panics == 2 })
}

// The held and the unsent bytes are bounded.
func TestEventsBounds(t *testing.T) {
	for want, test := range map[error]struct {
		h    *events.Handler
		asks string
	}{
		events.ErrHeld:   {&events.Handler{MaxHeld: 1000, OnData: func(*events.Conn, []byte) int { return 0 }}, strings.Repeat("x", 1000)},
		events.ErrUnsent: {&events.Handler{MaxUnsent: 1000, OnData: func(c *events.Conn, data []byte) int { _, _ = c.Write(make([]byte, bigAnswer)); return len(data) }}, "x"},
	} {
		var n ends
		test.h.OnEnd = n.note
		if !hasLoops && want == events.ErrUnsent {
			continue // a goroutine waits until everything is sent
		}
		at, _ := serve(t, &Server{Driver: test.h})
		c := dial(t, at)
		_, _ = io.WriteString(c, test.asks)
		n.want(t, 1, want)
	}
	for _, s := range []*Server{{Driver: &events.Handler{OnData: lines}, Handle: echo}, {}, {Driver: &events.Handler{OnData: lines, MaxHeld: -1}}, {Driver: &events.Handler{OnData: lines, MaxUnsent: -1}}} {
		if err := s.Serve(t.Context(), listenSocket(t, Options{})); err == nil {
			t.Errorf("%+v is served", s)
		}
	}
}

// The limits on connections apply, whether further connections wait or are refused, and so do the
// limits for each source.
func TestEventsLimits(t *testing.T) {
	var refused atomic.Int64
	note := func(net.Addr, error) { refused.Add(1) }
	for _, s := range []*Server{{MaxConns: 1}, {MaxConns: 1, Refuse: true}, {MaxConnsPerSource: 1}, {Deny: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}} {
		s.Driver, s.Refused, s.Options.Sockets = &events.Handler{OnData: lines}, note, 2
		refused.Store(0)
		at, _ := serve(t, s)
		ask := func(c net.Conn) error { // nil if it is reset before it is connected
			if c == nil {
				return net.ErrClosed
			}
			_, _ = io.WriteString(c, "one\n")
			_, err := io.ReadFull(c, make([]byte, 4))
			return err
		}
		connect := func() net.Conn {
			c, err := net.Dial("tcp", at)
			if err != nil {
				return nil
			}
			t.Cleanup(func() { _ = c.Close() })
			_ = c.SetDeadline(time.Now().Add(patience))
			return c
		}
		first := connect()
		err := ask(first)
		if denied := len(s.Deny) > 0; (err != nil) != denied {
			t.Fatalf("%+v: %v", s.Counters(), err)
		} else if denied {
			eventually(t, "it is refused", func() bool { return refused.Load() == 1 && s.Counters().Conns == 0 })
			continue
		}
		second := connect()
		if s.MaxConns > 0 && !s.Refuse {
			time.Sleep(10 * time.Millisecond)
			if n := s.Counters().Conns; hasLoops && n != 1 {
				t.Errorf("%d connections", n)
			}
			reset(first.(*net.TCPConn))
			if err := ask(second); err != nil {
				t.Errorf("it waited for a place: %v", err)
			}
			continue
		}
		if err := ask(second); err == nil {
			t.Error("one too many is served")
		}
		eventually(t, "it is refused", func() bool { return refused.Load() == 1 })
	}
}

// If many clients compete for few places, each is served in its turn.
func TestEventsPlaces(t *testing.T) {
	s := &Server{Driver: &events.Handler{OnData: lines}, MaxConns: 3, Options: Options{Sockets: 2}}
	at, stop := serve(t, s)
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if got := ask(t, at, "hello\n"); got != "hello\n" {
				t.Errorf("%q", got)
			}
		})
	}
	wg.Wait()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if c := s.Counters(); c.Accepted != 100 || c.Conns != 0 {
		t.Errorf("%+v", c)
	}
}

// There are timeouts for the first byte, and for silence after it.
func TestEventsTimeouts(t *testing.T) {
	for want, s := range map[error]*Server{ErrSilent: {FirstByteTimeout: brief}, ErrIdle: {IdleTimeout: brief}} {
		var n ends
		s.Driver = &events.Handler{OnData: lines, OnEnd: n.note}
		at, _ := serve(t, s)
		c := dial(t, at)
		if want == ErrIdle {
			_, _ = io.WriteString(c, "half")
		}
		if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
			t.Errorf("%v: %q, %v", want, b, err)
		}
		n.want(t, 1, want)
	}
}

// PROXY headers work as with Handle: complete, split and bad ones. A connection without a counted
// client does not decrement the count of another.
func TestEventsProxies(t *testing.T) {
	var bad atomic.Int64
	s := &Server{
		Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, HandshakeTimeout: time.Minute, MaxConnsPerSource: 50,
		BadHandshake: func(c *Conn, err error) {
			bad.Add(1)
			if !errors.Is(err, ErrProxyHeader) {
				t.Errorf("BadHandshake: %v", err)
			}
			_, _ = c.Write([]byte("no\n"))
		},
		Driver: &events.Handler{OnData: func(c *events.Conn, data []byte) int {
			if len(data) > 0 {
				fmt.Fprintf(c, "%v %v %s", c.RemoteAddr(), c.LocalAddr(), data)
			}
			return len(data)
		}},
	}
	at, stop := serve(t, s)
	for _, tt := range goodProxies {
		for _, cut := range []int{0, 1, len(tt.text) / 2, len(tt.text), len(tt.text) + 2} {
			c := dial(t, at)
			from := c.LocalAddr().String() + " " + at
			if tt.want.Source.IsValid() {
				from = tt.want.Source.String() + " " + tt.want.Destination.String()
			}
			text := tt.text + "hello"
			_, _ = io.WriteString(c, text[:cut])
			time.Sleep(time.Millisecond)
			_, _ = io.WriteString(c, text[cut:])
			_ = c.CloseWrite()
			got, err := io.ReadAll(c)
			if cut > len(tt.text) && hasLoops { // two calls
				if want := from + " " + text[len(tt.text):cut] + from + " " + text[cut:]; string(got) != want && string(got) != from+" hello" || err != nil {
					t.Errorf("%s, cut at %d: %q, %v", tt.name, cut, got, err)
				}
			} else if !strings.HasPrefix(string(got), from+" ") || err != nil {
				t.Errorf("%s, cut at %d: %q, %v", tt.name, cut, got, err)
			}
		}
	}
	for i, tt := range hostileProxies {
		c := dial(t, at)
		_, _ = io.WriteString(c, tt.text)
		_ = c.CloseWrite()
		if got, _ := io.ReadAll(c); string(got) != "no\n" && len(got) > 0 {
			t.Errorf("%s: %q", tt.name, got)
		}
		eventually(t, "it is reported", func() bool { return bad.Load() == int64(i+1) })
	}
	local := dial(t, at) // it is idle when the server ends: a panic then would not be caught
	_, _ = io.WriteString(local, "PROXY UNKNOWN\r\nhello")
	if _, err := io.ReadFull(local, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if c := s.Counters(); c.BadHandshakes != uint64(len(hostileProxies)) || c.Conns != 0 || c.Panics != 0 {
		t.Errorf("%+v", c)
	}
}
