package tftp

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// A steppedServer is a server with one shard, whose turns the test takes itself. There are no
// goroutines, and the test controls the time.
type steppedServer struct {
	*Server
	sh   *shard
	conn *deadEnd
	now  time.Time
}

func newSteppedServer(s Config) *steppedServer {
	s.Rate = -1
	mtu := func(netip.Addr) (int, error) { return 0, errors.ErrUnsupported }
	l, err := s.server(context.Background(), testHooks{mtu: mtu})
	if err != nil {
		panic(err)
	}
	l.workers.Waiting() // the test executes the jobs
	m := &steppedServer{Server: l, conn: &deadEnd{}, now: time.Unix(1e9, 0)}
	b := &binding{server: l}
	m.sh = newShard(b, m.conn, false)
	b.shards = []*shard{m.sh}
	m.bindings = []*binding{b}
	m.share()
	return m
}

// ask passes a request packet to the server.
func (m *steppedServer) ask(peer netip.AddrPort, b []byte) {
	msg := udp.Message{Peer: peer, Data: b}
	if q, _, ok := m.config.parseRequest(&msg, b, addrPort(serverIP, transfer.Port)); ok {
		m.sh.push(q)
	}
}

// deliver puts a datagram into the nth message of the next turn.
func (m *steppedServer) deliver(n int, peer netip.AddrPort, b []byte) {
	in := &m.sh.in[n]
	in.Peer, in.Segment = peer, 0
	in.Data = append(in.Data[:0], b...)
}

// turn takes a turn with n messages, and executes its jobs.
func (m *steppedServer) turn(n int) bool {
	m.now = m.now.Add(100 * time.Microsecond)
	over := m.sh.turn(m.now, n)
	for {
		select {
		case e := <-m.workers.Waiting():
			e.Work()
			e.HandBack()
			continue
		default:
		}
		return over
	}
}

// halt stops everything.
func (m *steppedServer) halt(t testing.TB) {
	t.Helper()
	m.sh.stop(halting)
	for range 10 {
		if m.turn(0) {
			wantIdle(t, m.Server)
			return
		}
	}
	t.Fatal("the shard does not end")
}

// A deadEnd is a socket that accepts all datagrams and never returns any.
type deadEnd struct {
	datagrams int
	last      []byte // the latest message
}

func (d *deadEnd) Read([]udp.Message, time.Time) (int, error) { return 0, io.EOF }

func (d *deadEnd) Write(ms []udp.Message) (int, error) {
	for i := range ms {
		d.last = append(d.last[:0], ms[i].Data...)
		for range ms[i].Datagrams() {
			d.datagrams++
		}
	}
	return len(ms), nil
}

func (d *deadEnd) Wake()                     {}
func (d *deadEnd) LocalAddr() netip.AddrPort { return netip.AddrPort{} }
func (d *deadEnd) Close() error              { return nil }

func (d *deadEnd) Limits() udp.Limits {
	return udp.Limits{Messages: 16, Segments: 8, Datagram: 1, Buffer: 1 << 20}
}
