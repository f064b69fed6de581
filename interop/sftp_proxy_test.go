//go:build unix

package interop

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A wire connects a client and a server. It delays each byte, and it can cut all connections at
// once.
type wire struct {
	l       net.Listener
	to      string
	latency time.Duration
	moved   atomic.Int64 // bytes in both directions together

	mu    sync.Mutex
	conns []net.Conn // mu
	wait  sync.WaitGroup
}

// newWire makes a wire to an address.
func newWire(t *testing.T, to string, latency time.Duration) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{l: l, to: to, latency: latency}
	w.wait.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.wait.Go(func() { w.join(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		w.cut()
		w.wait.Wait()
	})
	return w
}

// through returns a login that uses the wire.
func (w *wire) through(l login) login {
	l.addr = w.l.Addr().String()
	return l
}

func (w *wire) join(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer server.Close()
	w.mu.Lock()
	w.conns = append(w.conns, client, server)
	w.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { w.carry(client, server) })
	both.Go(func() { w.carry(server, client) })
	both.Wait()
}

// A parcel is data under way until a given time.
type parcel struct {
	data []byte
	due  time.Time
}

// carry moves bytes in one direction. The bytes under way are only bounded by TCP's windows and
// the time that they take.
func (w *wire) carry(from, to net.Conn) {
	parcels := make(chan parcel, 4096)
	var sender sync.WaitGroup
	sender.Go(func() {
		for p := range parcels {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.data); err != nil {
				from.Close()
			}
		}
		if c, ok := to.(*net.TCPConn); ok {
			_ = c.CloseWrite()
		}
	})
	for {
		b := make([]byte, 64<<10)
		n, err := from.Read(b)
		if n > 0 {
			parcels <- parcel{b[:n], time.Now().Add(w.latency)}
			w.moved.Add(int64(n))
		}
		if err != nil {
			break
		}
	}
	close(parcels)
	sender.Wait()
}

// cut resets all connections.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // reset instead of a FIN
		}
		c.Close()
	}
	w.conns = nil
}
