//go:build unix

package tftp

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/udp"
)

// A halfTransfer is a client that has received the first of three blocks of a file. The test sends
// its packets one by one.
type halfTransfer struct {
	t    *testing.T
	conn *net.UDPConn
	from *net.UDPAddr // address of the sender
}

func beginTransfer(t *testing.T, l *Server, name string) *halfTransfer {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	h := &halfTransfer{t: t, conn: conn, from: net.UDPAddrFromAddrPort(l.Addr())}
	h.send("\x00\x01" + name + "\x00octet\x00")
	h.want(3, 1)
	return h
}

func (h *halfTransfer) send(packet string) {
	h.t.Helper()
	if _, err := h.conn.WriteToUDP([]byte(packet), h.from); err != nil {
		h.t.Fatal(err)
	}
}

// want waits for a packet, and skips repeats of the previous block.
func (h *halfTransfer) want(op, block byte) {
	h.t.Helper()
	b := make([]byte, 2048)
	for {
		h.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		n, from, err := h.conn.ReadFromUDP(b)
		if err != nil {
			h.t.Fatalf("no packet %d: %v", op, err)
		}
		h.from = from
		switch {
		case n >= 4 && b[1] == op && (op != 3 || b[3] == block):
			return
		case n < 4 || b[1] != 3 || b[3] != block-1:
			h.t.Fatalf("got %q, want packet %d", b[:min(n, 40)], op)
		}
	}
}

// end fetches the remaining blocks.
func (h *halfTransfer) end() {
	h.t.Helper()
	for _, block := range []string{"\x01", "\x02"} {
		h.send("\x00\x04\x00" + block)
		h.want(3, block[0]+1)
	}
	h.send("\x00\x04\x00\x03")
}

// successorOf returns a server with the sockets of another one.
func successorOf(t *testing.T, l *Server, s Config) *Server {
	t.Helper()
	files, err := l.Files()
	if err != nil {
		t.Fatal(err)
	}
	var conns []*udp.Conn
	for _, f := range slices.Concat(files...) {
		conn, err := udp.FromFile(f, udp.Config{Plain: s.Plain})
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		f.Close()
	}
	next, err := s.ListenAt(context.Background(), Place{Conns: conns})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(next.Addrs(), l.Addrs()) {
		t.Errorf("it listens at %v, the one before at %v", next.Addrs(), l.Addrs())
	}
	return next
}

// A server hands over its sockets, and stops when its last transfer has ended.
func TestRetire(t *testing.T) {
	for _, single := range []bool{false, true} {
		for _, loops := range []int{1, 3} {
			t.Run(fmt.Sprintf("single=%v/loops=%d", single, loops), func(t *testing.T) {
				bothWays(t, func(t *testing.T, plain bool) { testRetire(t, Config{SinglePort: single, Loops: loops, Plain: plain}) })
			})
		}
	}
}

func testRetire(t *testing.T, s Config) {
	mem := store.Mem(1 << 30)
	s.Store = mem
	image := tftptest.Content("image", 2*512+1)
	storetest.Put(t, mem, "image", image)
	first, err := s.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- first.Serve(t.Context()) }()
	half := beginTransfer(t, first, "image")

	second := successorOf(t, first, s)
	first.Retire(time.Hour)
	first.Retire(time.Nanosecond) // has no effect any more
	finish := func() {
		t.Helper()
		half.end()
		select {
		case err := <-served:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the first server does not end")
		}
		wantIdle(t, first)
	}
	// A request that arrives before the other server calls Serve waits in the socket, or is
	// repeated.
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		c, here := &tftpclient.Client{}, store.Mem(1<<30)
		if _, err := c.Get(t.Context(), at(second, "image"), tftptest.Into(here, "image")); err != nil {
			t.Errorf("get: %v", err)
		}
		tftptest.WantFile(t, here, "image", image)
		c.Wait()
	}()
	if s.SinglePort {
		finish() // until then the first server owns the port
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- second.Serve(ctx) }()
	<-asked
	if !s.SinglePort {
		finish()
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("Serve: %v", err)
	}
	wantIdle(t, second)
}

// A transfer that does not end by itself is ended at the time limit.
func TestRetireLimit(t *testing.T) {
	mem := store.Mem(1 << 30)
	storetest.Put(t, mem, "image", tftptest.Content("image", 2*512+1))
	l, err := (&Config{Store: mem, Grace: time.Hour}).Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- l.Serve(t.Context()) }()
	half := beginTransfer(t, l, "image")
	l.Retire(time.Millisecond)
	half.want(5, 2) // an ERROR, perhaps after DATA 1
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	wantIdle(t, l)
}
