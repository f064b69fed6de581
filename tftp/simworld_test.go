package tftp

import (
	"context"
	"io"
	"log/slog"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/haul-project/haul/internal/repeat"
	"github.com/haul-project/haul/internal/sim"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
	"github.com/haul-project/haul/tftp/internal/packetio"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/udp"
)

// Hosts of simulated worlds.
const (
	serverIP = "192.0.2.1"
	clientIP = "192.0.2.100"
	otherIP  = "192.0.2.66"
)

// A simWorld has a server on a simulated network, with time that passes while all goroutines wait.
// It runs inside a bubble of testing/synctest.
type simWorld struct {
	t    testing.TB
	net  *sim.Network
	mem  store.Tree
	disk *sim.Disk // the served store: mem, with faults
	log  *logRecords

	server *Server
	hooks  testHooks // hooks of the server
	stop   context.CancelFunc
	served chan error

	mu      sync.Mutex
	clients []*simClient // guarded by mu
}

// inWorld runs f in a world whose server configure has set up, and then checks for leftovers.
func inWorld(t *testing.T, configure func(*simWorld, *Config), f func(*simWorld)) {
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

func (w *simWorld) start(configure func(*simWorld, *Config)) {
	w.t.Helper()
	s := Config{Store: w.disk, Upload: OverwriteUploads, Loops: 2, Rate: -1, Log: slog.New(w.log)}
	w.hooks = testHooks{open: w.opener(serverIP), spread: true}
	if configure != nil {
		configure(w, &s)
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	l, err := listen(ctx, w.hooks, s, serverIP+":69")
	if err != nil {
		w.t.Fatal(err)
	}
	w.server, w.served = l, make(chan error, 1)
	go func() { w.served <- l.Serve(ctx) }()
}

// listen is like [Config.Listen], with hooks.
func listen(ctx context.Context, hooks testHooks, c Config, addrs ...string) (*Server, error) {
	places := make([]Place, len(addrs))
	for i, addr := range addrs {
		places[i].Addr = addr
	}
	return c.listen(ctx, hooks, places)
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

// end stops the server and checks that nothing is left behind.
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

// wantClean checks a stopped server.
func (w *simWorld) wantClean() {
	w.t.Helper()
	if n := w.disk.Unclosed(); n != 0 {
		w.t.Errorf("%d files left open", n)
	}
	if n := w.net.Host(serverIP).Open(); n != 0 {
		w.t.Errorf("%d server sockets left open", n)
	}
	wantIdle(w.t, w.server)
}

// wantIdle checks the shards of a stopped server.
func wantIdle(t testing.TB, l *Server) {
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
		if len(sh.sessions) != 0 || len(sh.timers.heap) != 0 || sh.busy != 0 || sh.jobs != 0 {
			t.Errorf("shard left with %d sessions, %d timers, %d busy, %d jobs",
				len(sh.sessions), len(sh.timers.heap), sh.busy, sh.jobs)
		}
	}
	for _, b := range l.bindings {
		if n := len(b.routes.to); n != 0 {
			t.Errorf("%d routes left", n)
		}
		for _, sh := range b.shards {
			if sh.routed != 0 || sh.windowed != 0 {
				t.Errorf("a shard with %d routes to it, %d with a window, of none", sh.routed, sh.windowed)
			}
		}
	}
	if !l.guard.idle() {
		t.Error("the guard still counts transfers")
	}
	wantAllFree(t, l, "at the end")
	if c := l.Counters(); c.Held != 0 || c.Live != 0 || c.Dallying != 0 {
		t.Errorf("counters still show %+v", c)
	}
}

// client returns a client with small blocks on the client's host.
func (w *simWorld) client() *simClient {
	c := &simClient{&tftpclient.Client{BlockSize: 1024, Window: 8}, w.opener(clientIP)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clients = append(w.clients, c)
	return c
}

// A simClient is a Client on a simulated host.
type simClient struct {
	*tftpclient.Client
	open packetio.Opener
}

func (c *simClient) Get(ctx context.Context, t tftpclient.Target, create func(size int64) (store.Upload, error)) (tftpclient.Result, error) {
	return c.Client.Get(packetio.WithOpener(ctx, c.open), t, create)
}

func (c *simClient) Put(ctx context.Context, t tftpclient.Target, src io.ReaderAt, size int64) (tftpclient.Result, error) {
	return c.Client.Put(packetio.WithOpener(ctx, c.open), t, src, size)
}

func (c *simClient) Size(ctx context.Context, t tftpclient.Target) (int64, error) {
	return c.Client.Size(packetio.WithOpener(ctx, c.open), t)
}

// target returns a target for a file on the world's server.
func target(name string) tftpclient.Target { return tftpclient.Target{Host: serverIP, Name: name} }

// put adds a file of n bytes to the server's store. The content depends on the name and size.
func (w *simWorld) put(name string, n int) []byte {
	w.t.Helper()
	b := tftptest.Content(name, n)
	storetest.Put(w.t, w.mem, name, b)
	return b
}

// A logRecords is a slog.Handler that keeps all records.
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

// results counts the logged transfers by outcome.
func (l *logRecords) results() map[Outcome]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := map[Outcome]int{}
	for _, line := range l.lines {
		n[Outcome(line["result"])]++
	}
	return n
}

// wantResults waits until all goroutines are idle, and checks the logged results.
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

// raw returns a peer on a simulated host, which sends to the server's port.
func (w *simWorld) raw(ip string) *tftptest.Peer {
	w.t.Helper()
	conn, err := w.opener(ip)(context.Background(), addrPort(ip, 0), udp.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	return tftptest.NewPeer(w.t, conn, netip.MustParseAddrPort(serverIP+":69"))
}

// firstSimPort is approximately the first port that a simulated network chooses.
const firstSimPort = 32768

func addrPort(ip string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(ip), port)
}

// A walled is a socket that cannot reach a certain host.
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

// unreachableFor opens sockets that cannot reach a host.
func unreachableFor(open packetio.Opener, ip string) packetio.Opener {
	return func(ctx context.Context, addr netip.AddrPort, c udp.Config) (packetio.Socket, error) {
		conn, err := open(ctx, addr, c)
		if err != nil {
			return nil, err
		}
		return walled{conn, netip.MustParseAddr(ip)}, nil
	}
}
