package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/udp"
)

const here, there = "192.0.2.1", "192.0.2.2"

func listen(t *testing.T, n *Network, addr string, c udp.Config) *Conn {
	t.Helper()
	at := netip.MustParseAddrPort(addr)
	conn, err := n.Host(at.Addr().String()).Listen(t.Context(), at, c)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func send(t *testing.T, from, to *Conn, segment int, data string) {
	t.Helper()
	if _, err := from.Write([]udp.Message{{Peer: to.LocalAddr(), Data: []byte(data), Segment: segment}}); err != nil {
		t.Fatal(err)
	}
}

// receive returns all datagrams that arrive within wait, and the arrival time of each.
func receive(t *testing.T, c *Conn, wait time.Duration) (got []string, at []time.Duration) {
	t.Helper()
	began := time.Now()
	ms := make([]udp.Message, 4)
	for i := range ms {
		ms[i].Data = make([]byte, 100)
	}
	for time.Since(began) < wait {
		n, err := c.Read(ms, began.Add(wait))
		if err != nil {
			t.Fatal(err)
		}
		for i := range ms[:n] {
			for b := range ms[i].Datagrams() {
				got = append(got, string(b))
				at = append(at, time.Since(began))
			}
		}
	}
	return got, at
}

func TestLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		n.Glue, n.Messages = true, 3
		a, b := listen(t, n, here+":0", udp.Config{}), listen(t, n, there+":69", udp.Config{})
		send(t, a, b, 2, "aabbc")
		if got, at := receive(t, b, time.Second); fmt.Sprint(got) != "[aa bb c]" || at[2] != 0 {
			t.Errorf("no delay: %q at %v", got, at)
		}
		n.Connect(here, there, Link{Latency: time.Millisecond, Rate: 1000 + overhead*1000})
		send(t, a, b, 1, "xyz")
		if got, at := receive(t, b, time.Second); fmt.Sprint(got) != "[x y z]" || at[0] != 2*time.Millisecond || at[2] != 4*time.Millisecond {
			t.Errorf("1 ms each, after 1 ms: %q at %v", got, at)
		}
		n.Cut(here, there)
		send(t, a, b, 0, "lost")
		if got, _ := receive(t, b, time.Second); len(got) != 0 {
			t.Errorf("cut: %q", got)
		}
		n.Route(here, there, Link{Loss: 0.5, Duplicate: 0.5, Latency: time.Millisecond, Jitter: time.Millisecond, Reorder: 0.3})
		total, swapped := 0, 0
		for range 100 {
			send(t, a, b, 1, "0123456789")
			got, _ := receive(t, b, time.Second)
			total += len(got)
			for i := 1; i < len(got); i++ {
				if got[i] < got[i-1] {
					swapped++
				}
			}
		}
		if total < 600 || total > 900 || swapped < 50 {
			t.Errorf("%d of 1000 datagrams came, %d out of order", total, swapped)
		}
	})
}

func TestPorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		host := n.Host(there, "192.0.2.3")
		all, err := host.Listen(t.Context(), netip.MustParseAddrPort("0.0.0.0:69"), udp.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for addr, want := range map[string]error{
			there + ":69": syscall.EADDRINUSE, "0.0.0.0:69": syscall.EADDRINUSE, "192.0.2.9:70": syscall.EADDRNOTAVAIL, there + ":0": nil,
		} {
			if _, err := host.Listen(t.Context(), netip.MustParseAddrPort(addr), udp.Config{ReusePort: true}); !errors.Is(err, want) {
				t.Errorf("listen on %s: %v, want %v", addr, err, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := host.Listen(ctx, netip.AddrPort{}, udp.Config{}); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end: %v", err)
		}
		if n := host.Open(); n != 2 {
			t.Errorf("%d sockets open", n)
		}

		// A socket of a host with two addresses learns to which of them a datagram was sent, and can
		// send the answer from that address.
		a := listen(t, n, here+":0", udp.Config{Refusals: true})
		asked := netip.MustParseAddrPort("192.0.2.3:69")
		if _, err := a.Write([]udp.Message{{Peer: asked, Data: []byte("hi")}}); err != nil {
			t.Fatal(err)
		}
		ms := []udp.Message{{Data: make([]byte, 10)}}
		for k := 0; k == 0; {
			k, _ = all.Read(ms, time.Time{})
		}
		if ms[0].Local != asked.Addr() || ms[0].Peer != a.LocalAddr() {
			t.Errorf("%v reached %v", ms[0].Peer, ms[0].Local)
		}
		ms[0].Peer, ms[0].Local = a.LocalAddr(), asked.Addr()
		if _, err := all.Write(ms); err != nil {
			t.Fatal(err)
		}
		for k := 0; k == 0; {
			k, _ = a.Read(ms, time.Time{})
		}
		if ms[0].Peer != asked {
			t.Errorf("answered from %v", ms[0].Peer)
		}

		// Sending to a closed port causes a report.
		_ = all.Close()
		if _, err := all.Write(ms); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write after Close: %v", err)
		}
		if _, err := a.Write([]udp.Message{{Peer: asked, Data: []byte("hi")}}); err != nil {
			t.Fatal(err)
		}
		for err = nil; err == nil; {
			_, err = a.Read(ms, time.Time{})
		}
		if op, ok := errors.AsType[*net.OpError](err); !ok || !errors.Is(err, syscall.ECONNREFUSED) || op.Addr.String() != asked.String() {
			t.Errorf("refused: %v", err)
		}
		if k, err := a.Write([]udp.Message{{Peer: netip.MustParseAddrPort("198.51.100.1:1")}}); k != 0 || !errors.Is(err, syscall.ENETUNREACH) {
			t.Errorf("no such host: %d, %v", k, err)
		}
	})
}

func TestWakeAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		a := listen(t, n, here+":0", udp.Config{})
		ms := []udp.Message{{Data: make([]byte, 10)}}
		a.Wake()
		began := time.Now()
		if k, err := a.Read(ms, time.Time{}); k != 0 || err != nil {
			t.Errorf("woken before: %d, %v", k, err)
		}
		time.AfterFunc(time.Second, a.Wake)
		for time.Since(began) < time.Second {
			if k, err := a.Read(ms, began.Add(time.Minute)); k != 0 || err != nil {
				t.Errorf("woken meanwhile: %d, %v", k, err)
			}
		}
		if time.Since(began) != time.Second {
			t.Errorf("woken after %v", time.Since(began))
		}
		time.AfterFunc(time.Second, func() { _ = a.Close() })
		var err error
		for err == nil {
			_, err = a.Read(ms, time.Time{})
		}
		if !errors.Is(err, net.ErrClosed) || time.Since(began) != 2*time.Second {
			t.Errorf("closed: %v after %v", err, time.Since(began))
		}
	})
}

func TestDisk(t *testing.T) {
	mem := store.Mem(0)
	broken := errors.New("broken")
	fail := ""
	d := &Disk{Store: mem, Before: func(c Call) error {
		if c.Op == fail {
			return broken
		}
		return nil
	}}
	u, err := d.Create(t.Context(), "a", store.Create{})
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range []string{Write, Truncate, Commit, ""} {
		fail = op
		_, werr := u.WriteAt([]byte("hello"), 0)
		terr := u.Truncate(5)
		var cerr error
		if op == Commit || op == "" {
			cerr = u.Commit()
		}
		if got := errors.Join(werr, terr, cerr); errors.Is(got, broken) != (op != "") {
			t.Errorf("%s: %v", op, got)
		}
	}
	if d.Unclosed() != 1 {
		t.Errorf("%d open, want the upload", d.Unclosed())
	}
	_ = u.Close()
	_ = u.Close()
	f, err := d.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	fail = TryRead
	if _, err := f.(store.TryReader).TryReadAt([][]byte{make([]byte, 5)}, 0); !errors.Is(err, broken) {
		t.Errorf("try: %v", err)
	}
	if n, err := f.ReadAt(make([]byte, 5), 0); n != 5 || err != nil {
		t.Errorf("read: %d, %v", n, err)
	}
	_ = f.Close()
	if d.Unclosed() != 0 || d.Calls(Open) != 1 {
		t.Errorf("%d open, %d opened", d.Unclosed(), d.Calls(Open))
	}
}
