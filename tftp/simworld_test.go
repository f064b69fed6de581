package tftp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/repeat"
	"github.com/haul-project/haul/internal/sim"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
	"github.com/haul-project/haul/tftp/internal/packetio"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// Hosts of simulated worlds.
const (
	serverIP = "192.0.2.1"
	clientIP = "192.0.2.100"
	otherIP  = "192.0.2.66"
)

// A simWorld is a server on a simulated network, and time that passes when all
// goroutines wait. It lives inside a bubble of testing/synctest.
type simWorld struct {
	t    testing.TB
	net  *sim.Network
	mem  *store.MemStore
	disk *sim.Disk // what the server serves: mem, with faults
	log  *logRecords

	listener *Listener
	stop     context.CancelFunc
	served   chan error

	mu      sync.Mutex
	clients []*simClient // mu
}

// inWorld runs f in a world whose server is as configure leaves it, and then
// looks for what was left behind.
func inWorld(t *testing.T, configure func(*simWorld, *Server), f func(*simWorld)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.start(configure)
		f(w)
		w.end()
	})
}

func newWorld(t testing.TB, seed uint64) *simWorld {
	repeat.OnFailure(t)
	w := &simWorld{t: t, net: sim.New(seed), mem: store.Mem(1 << 30), log: &logRecords{}}
	w.disk = &sim.Disk{Store: w.mem}
	w.net.Messages, w.net.Segments = 8, 4
	w.net.Host(serverIP)
	w.net.Host(clientIP)
	return w
}

func (w *simWorld) start(configure func(*simWorld, *Server)) {
	w.t.Helper()
	s := Server{Store: w.disk, Upload: OverwriteUploads, Loops: 2, spread: true, Rate: -1, Log: slog.New(w.log)}
	s.open = w.opener(serverIP)
	if configure != nil {
		configure(w, &s)
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	l, err := s.Listen(ctx, serverIP+":69")
	if err != nil {
		w.t.Fatal(err)
	}
	w.listener, w.served = l, make(chan error, 1)
	go func() { w.served <- l.Serve(ctx) }()
}

// opener opens sockets on a simulated host.
func (w *simWorld) opener(ip string) packetio.Opener {
	h := w.net.Host(ip)
	return func(ctx context.Context, addr netip.AddrPort, c udp.Config) (packetio.Socket, error) {
		conn, err := h.Listen(ctx, addr, c)
		if err != nil {
			return nil, err
		}
		return conn, nil
	}
}

// end stops the server and checks that nothing is left of it.
func (w *simWorld) end() {
	w.t.Helper()
	for _, c := range w.clients {
		c.Wait()
	}
	w.stop()
	if err := <-w.served; err != nil {
		w.t.Errorf("Serve: %v", err)
	}
	w.wantClean()
}

// wantClean checks a server that has ended.
func (w *simWorld) wantClean() {
	w.t.Helper()
	if n := w.disk.Unclosed(); n != 0 {
		w.t.Errorf("%d files left open", n)
	}
	if n := w.net.Host(serverIP).Open(); n != 0 {
		w.t.Errorf("%d server sockets left open", n)
	}
	wantIdle(w.t, w.listener)
}

// wantIdle checks the shards of a server that has ended.
func wantIdle(t testing.TB, l *Listener) {
	t.Helper()
	if n := l.count.Load(); n != 0 {
		t.Errorf("%d sessions still counted", n)
	}
	if n := l.dallying.Load(); n != 0 {
		t.Errorf("%d sessions still counted as dallying", n)
	}
	if n := l.files.Open(); n != 0 {
		t.Errorf("%d files still counted", n)
	}
	for sh := range l.allShards {
		if len(sh.sessions) != 0 || len(sh.timers.heap) != 0 || sh.busy != 0 || sh.jobs != 0 || sh.memory.left != sh.memory.limit || sh.memory.reserved != 0 {
			t.Errorf("shard left with %d sessions, %d timers, %d busy, %d jobs, %d of %d bytes of memory",
				len(sh.sessions), len(sh.timers.heap), sh.busy, sh.jobs, sh.memory.left, sh.memory.limit)
		}
	}
	for _, b := range l.bindings {
		if n := len(b.routes.to); n != 0 {
			t.Errorf("%d routes left", n)
		}
		for _, sh := range b.shards {
			if sh.routed != 0 {
				t.Errorf("a shard with %d routes to it, of none", sh.routed)
			}
		}
	}
	if !l.guard.idle() {
		t.Error("the guard still counts transfers")
	}
	if c := l.Counters(); c.Held != 0 || c.Live != 0 || c.Dallying != 0 {
		t.Errorf("counters still show %+v", c)
	}
}

// client returns a client on the client's host, with small blocks.
func (w *simWorld) client() *simClient {
	c := &simClient{&Client{BlockSize: 1024, Window: 8}, w.opener(clientIP)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clients = append(w.clients, c)
	return c
}

// A simClient is a Client on a simulated host.
type simClient struct {
	*Client
	open packetio.Opener
}

func (c *simClient) Get(ctx context.Context, t Target, create func(size int64) (store.Upload, error)) (Result, error) {
	return c.Client.Get(packetio.WithOpener(ctx, c.open), t, create)
}

func (c *simClient) Put(ctx context.Context, t Target, src io.ReaderAt, size int64) (Result, error) {
	return c.Client.Put(packetio.WithOpener(ctx, c.open), t, src, size)
}

func (c *simClient) Size(ctx context.Context, t Target) (int64, error) {
	return c.Client.Size(packetio.WithOpener(ctx, c.open), t)
}

// target names a file on the world's server.
func target(name string) Target { return Target{Host: serverIP, Name: name} }

// put gives the server's store a file of n bytes, the same for the same name
// and size.
func (w *simWorld) put(name string, n int) []byte {
	w.t.Helper()
	b := content(name, n)
	storetest.Put(w.t, w.mem, name, b)
	return b
}

// content returns n bytes that depend on the name.
func content(name string, n int) []byte {
	var seed [32]byte
	copy(seed[:], name)
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(seed).Read(b)
	return b
}

// wantFile checks what a store has under a name.
func wantFile(t testing.TB, st store.Store, name string, want []byte) {
	t.Helper()
	f, err := st.Open(context.Background(), name)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	defer f.Close()
	got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s holds %d bytes (%v), not the %d it should", name, len(got), err, len(want))
	}
}

func wantNoFile(t testing.TB, st store.Store, name string) {
	t.Helper()
	if f, err := st.Open(context.Background(), name); err == nil {
		f.Close()
		t.Errorf("%s exists", name)
	}
}

// into returns a create function for Client.Get that stores under a name.
func into(st store.Store, name string) func(int64) (store.Upload, error) {
	return func(size int64) (store.Upload, error) {
		return st.Create(context.Background(), name, store.Create{Size: size})
	}
}

// wantFault checks that err is an ERROR packet from the peer.
func wantFault(t testing.TB, err error, code transfer.ErrorCode) {
	t.Helper()
	if fault, ok := errors.AsType[*transfer.Error](err); !ok || !fault.Remote || fault.Code != code {
		t.Errorf("error %v, want ERROR %d from the peer", err, code)
	}
}

// A logRecords is a slog.Handler that keeps what it is given.
type logRecords struct {
	mu    sync.Mutex
	lines []map[string]string
}

func (l *logRecords) Enabled(context.Context, slog.Level) bool { return true }
func (l *logRecords) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logRecords) WithGroup(string) slog.Handler            { return l }

func (l *logRecords) Handle(_ context.Context, r slog.Record) error {
	line := map[string]string{"level": r.Level.String()}
	r.Attrs(func(a slog.Attr) bool {
		line[a.Key] = a.Value.String()
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Message == "tftp" {
		l.lines = append(l.lines, line)
	}
	return nil
}

// textLog returns a log that writes to out.
func textLog(out io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(out, nil)) }

// results counts the transfers logged, by how they ended.
func (l *logRecords) results() map[Outcome]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := map[Outcome]int{}
	for _, line := range l.lines {
		n[Outcome(line["result"])]++
	}
	return n
}

// wantResults checks what was logged, once all is quiet.
func (w *simWorld) wantResults(want map[Outcome]int) {
	w.t.Helper()
	synctest.Wait()
	got := w.log.results()
	for result, n := range want {
		if got[result] != n {
			w.t.Errorf("%d transfers logged as %q, want %d; all: %v", got[result], result, n, got)
		}
	}
}

// A rawPeer is a peer that a test plays by hand, on any kind of socket.
type rawPeer struct {
	t    testing.TB
	conn packetio.Socket
	in   []udp.Message
	to   netip.AddrPort // where send sends to
	last []byte         // what want got
}

// raw returns a peer on a simulated host, which sends to the server's port.
func (w *simWorld) raw(ip string) *rawPeer {
	w.t.Helper()
	conn, err := w.opener(ip)(context.Background(), addrPort(ip, 0), udp.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	return newRawPeer(w.t, conn, netip.MustParseAddrPort(serverIP+":69"))
}

func newRawPeer(t testing.TB, conn packetio.Socket, to netip.AddrPort) *rawPeer {
	p := &rawPeer{t: t, conn: conn, to: to}
	p.in = []udp.Message{{Data: make([]byte, 1<<16)}}
	return p
}

func (p *rawPeer) close() { _ = p.conn.Close() }

// send sends a datagram to where the latest came from.
func (p *rawPeer) send(b []byte) {
	p.t.Helper()
	if _, err := p.conn.Write([]udp.Message{{Peer: p.to, Data: b}}); err != nil {
		p.t.Fatal(err)
	}
}

// next returns the next datagram, nil if none comes in time. It is answered
// by send.
func (p *rawPeer) next(wait time.Duration) []byte {
	p.t.Helper()
	deadline := time.Now().Add(wait)
	for {
		n, err := p.conn.Read(p.in, deadline)
		if err != nil {
			p.t.Fatal(err)
		}
		if n > 0 {
			p.to = p.in[0].Peer
			return bytes.Clone(p.in[0].Data)
		}
		if !time.Now().Before(deadline) {
			return nil
		}
	}
}

// news waits for a datagram other than the one that came before: a slow
// machine makes the other end repeat itself.
func (p *rawPeer) news() []byte {
	p.t.Helper()
	for {
		got := p.next(patience)
		if got == nil || !bytes.Equal(got, p.last) {
			p.last = got
			return got
		}
	}
}

// want waits for the given datagram.
func (p *rawPeer) want(what string, b []byte) {
	p.t.Helper()
	if bytes.Equal(b, p.last) {
		p.last = nil
	}
	if got := p.news(); !bytes.Equal(got, b) {
		p.t.Fatalf("%s: got %.60q, want %.60q", what, got, b)
	}
}

// wantError waits for an ERROR packet.
func (p *rawPeer) wantError(what string, code transfer.ErrorCode) {
	p.t.Helper()
	if transfer.OpcodeOf(p.last) == transfer.ErrorPacket {
		p.last = nil
	}
	got := p.news()
	if transfer.OpcodeOf(got) != transfer.ErrorPacket || len(got) < 5 || got[3] != byte(code) || got[len(got)-1] != 0 {
		p.t.Fatalf("%s: got %.60q, want ERROR %d", what, got, code)
	}
}

// wantNothing checks that nothing comes.
func (p *rawPeer) wantNothing(what string, wait time.Duration) {
	p.t.Helper()
	if got := p.next(wait); got != nil {
		p.t.Fatalf("%s: got %.60q, want nothing", what, got)
	}
}

// Packets, as raw peers send and expect them.

func rrq(name string, options ...string) []byte { return packet(1, name, "octet", options) }
func wrq(name string, options ...string) []byte { return packet(2, name, "octet", options) }
func oack(options ...string) []byte             { return fields([]byte{0, 6}, options...) }

func packet(op byte, name, mode string, options []string) []byte {
	return fields(fields([]byte{0, op}, name, mode), options...)
}

func fields(b []byte, fields ...string) []byte {
	for _, f := range fields {
		b = append(append(b, f...), 0)
	}
	return b
}

func data(block int, b []byte) []byte {
	return append([]byte{0, 3, byte(block >> 8), byte(block)}, b...)
}

func ack(block int) []byte { return []byte{0, 4, byte(block >> 8), byte(block)} }

func errorPacket(code byte, msg string) []byte { return fields([]byte{0, 5, 0, code}, msg) }

// firstSimPort is about where a simulated network begins to choose ports.
const firstSimPort = 32768

func addrPort(ip string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(ip), port)
}

// A walled is a socket with no way to one host.
type walled struct {
	packetio.Socket
	host netip.Addr
}

func (w walled) Write(ms []udp.Message) (int, error) {
	for i := range ms {
		if ms[i].Peer.Addr() == w.host {
			return i, syscall.EHOSTUNREACH
		}
		if _, err := w.Socket.Write(ms[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(ms), nil
}

// unreachableFor opens sockets that have no way to a host.
func unreachableFor(open packetio.Opener, ip string) packetio.Opener {
	return func(ctx context.Context, addr netip.AddrPort, c udp.Config) (packetio.Socket, error) {
		conn, err := open(ctx, addr, c)
		if err != nil {
			return nil, err
		}
		return walled{conn, netip.MustParseAddr(ip)}, nil
	}
}
