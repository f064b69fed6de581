//go:build linux && !haul_portable

package tftpclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/tftp/internal/protocol"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// A closed port is reported at once, even with several hosts on one socket.
func TestPoolRefused(t *testing.T) {
	eachPool(t, func(t *testing.T, p *Pool) {
		pool := newPool(t, p)
		var keys []string
		for i := range 6 {
			at := fmt.Sprintf("127.0.0.%d", 10+i)
			closed := listenUDP(t, at+":0")
			to := Target{Host: at, Port: closed.LocalAddr().Port(), Name: "file"}
			closed.Close()
			pool.get(t.Context(), to, store.Mem(0), at)
			keys = append(keys, at)
		}
		errs := pool.wait()
		for _, key := range keys {
			if !errors.Is(errs[key], syscall.ECONNREFUSED) {
				t.Errorf("%s: %v", key, errs[key])
			}
		}
	})
}

// If the first address of a host refuses packets, the other addresses are tried. An unknown name is
// an error.
func TestPoolNames(t *testing.T) {
	mem, here := store.Mem(0), store.Mem(0)
	storetest.Put(t, mem, "file", []byte("content"))
	l := serve(t, tftp.Config{Store: mem})
	p := newPool(t, &Pool{})
	to := at(l, "file")
	to.Host = "localhost" // ::1 is tried first if the system has IPv6
	const names = 3 * maxResolvers
	for i := range names {
		p.get(t.Context(), to, here, fmt.Sprint("file", i))
	}
	to.Host = "nobody.invalid"
	p.get(t.Context(), to, here, "nobody")
	errs := p.wait()
	for i := range names {
		name := fmt.Sprint("file", i)
		if errs[name] != nil {
			t.Error(errs[name])
		}
		tftptest.WantFile(t, here, name, []byte("content"))
	}
	if errs["nobody"] == nil {
		t.Error("an unknown name is no error")
	}
	addrs := &poolRequest{
		ctx: t.Context(), target: at(l, "file"), create: tftptest.Into(here, "second"), done: p.done("second"),
		addr: netip.MustParseAddr("127.0.0.77"), more: []netip.Addr{netip.MustParseAddr("127.0.0.1")},
	}
	p.common.pending.add()
	if err := p.loops[0].inbox.push(addrs); err != nil {
		t.Fatal(err)
	}
	if err := p.wait()["second"]; err != nil {
		t.Error(err)
	}
	tftptest.WantFile(t, here, "second", []byte("content"))
}

// Close does not wait for a name server that does not answer.
func TestPoolCloseWhileLookingUp(t *testing.T) {
	asked := make(chan struct{}, 1)
	usual := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	defer func() { net.DefaultResolver = usual }()
	p := newPool(t, &Pool{})
	p.get(t.Context(), Target{Host: "slow.example", Port: 69, Name: "file", Mode: transfer.Octet}, store.Mem(0), "file")
	<-asked
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := p.wait()["file"]; !errors.Is(err, ErrPoolClosed) {
		t.Errorf("%v, want %v", err, ErrPoolClosed)
	}
}

// Transfers with different hosts share one socket, and each gets its own file.
func TestPoolHosts(t *testing.T) {
	const hosts, each = 8, 5
	here := store.Mem(0)
	p := newPool(t, &Pool{Sockets: 1})
	for h := range hosts {
		mem := store.Mem(0)
		name := fmt.Sprint("host", h)
		storetest.Put(t, mem, "config", tftptest.Content(name, 20_000))
		l := serveAt(t, tftp.Config{Store: mem}, fmt.Sprintf("127.0.0.%d:0", 20+h))
		to := at(l, "config")
		to.Host = l.Addr().Addr().String()
		for i := range each {
			p.get(t.Context(), to, here, fmt.Sprint(name, " ", i))
		}
	}
	for key, err := range p.wait() {
		if err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	for h := range hosts {
		for i := range each {
			name := fmt.Sprint("host", h)
			tftptest.WantFile(t, here, fmt.Sprint(name, " ", i), tftptest.Content(name, 20_000))
		}
	}
}

// A fanServer answers each request either from a new port, or all requests from one port. It sends
// the second blocks only when n clients have sent requests. It checks that no port of a client
// sends a request before its previous one is answered.
type fanServer struct {
	t      *testing.T
	door   *udp.Conn
	single bool
	n      int // number of requests to wait for before any data flows

	mu      sync.Mutex
	asking  map[netip.AddrPort]bool // guarded by mu; clients' ports whose requests are not answered yet
	clients map[netip.AddrPort]int  // guarded by mu; transfers by the client's port
	all     int                     // guarded by mu
	started chan struct{}
}

func newFanServer(t *testing.T, n int, single bool) (*fanServer, Target) {
	f := &fanServer{
		t: t, door: listenUDP(t, "127.0.0.1:0"), single: single, n: n, started: make(chan struct{}),
		asking: make(map[netip.AddrPort]bool), clients: make(map[netip.AddrPort]int),
	}
	go f.serve()
	return f, Target{Host: "127.0.0.1", Port: f.door.LocalAddr().Port()}
}

// serve answers requests with the name of the file as its content, and sends the rest of it once n
// clients have sent requests.
func (f *fanServer) serve() {
	in := []udp.Message{{Data: make([]byte, 1<<16)}}
	held := map[netip.AddrPort]string{}
	for {
		n, err := f.door.Read(in, time.Time{})
		if err != nil {
			return
		}
		if n == 0 {
			continue
		}
		from, b := in[0].Peer, in[0].Data
		if transfer.OpcodeOf(b) == transfer.Acknowledgement { // sent to a server with a single port
			f.mu.Lock()
			f.clients[from]--
			delete(held, from)
			f.mu.Unlock()
			continue
		}
		q, err := protocol.ParseRequest(b)
		if err != nil {
			continue
		}
		if f.single {
			f.mu.Lock()
			if name, busy := held[from]; busy && name != q.Name {
				f.t.Errorf("%v asks for %s while it gets %s", from, q.Name, name)
			} else if !busy {
				held[from] = q.Name
				f.clients[from]++
			}
			f.mu.Unlock()
			_, _ = f.door.Write([]udp.Message{{Peer: from, Data: tftptest.Data(1, []byte(q.Name))}})
			continue
		}
		f.mu.Lock()
		f.clients[from]++
		if f.all++; f.all == f.n {
			close(f.started)
		}
		f.mu.Unlock()
		go f.transfer(from, q.Name)
	}
}

// transfer sends a file of two blocks, the second one after all clients have sent requests.
func (f *fanServer) transfer(to netip.AddrPort, name string) {
	conn, err := udp.Listen(context.Background(), netip.MustParseAddrPort("127.0.0.1:0"), udp.Config{Plain: true, Buffer: 1 << 14})
	if err != nil {
		f.t.Error(err)
		return
	}
	defer conn.Close()
	in := []udp.Message{{Data: make([]byte, 2048)}}
	whole := append(tftptest.Content(name, 512), name...)
	for block := 1; block <= 2; block++ {
		if block == 2 {
			<-f.started
		}
		b := tftptest.Data(block, whole[(block-1)*512:min(block*512, len(whole))])
		for tries := 0; ; tries++ {
			if tries == 100 {
				f.t.Errorf("%s: block %d is not acknowledged", name, block)
				return
			}
			_, _ = conn.Write([]udp.Message{{Peer: to, Data: b}})
			n, err := conn.Read(in, time.Now().Add(tftptest.Patience/100))
			if err != nil {
				return
			}
			if n > 0 && string(in[0].Data) == string(tftptest.ACK(block)) {
				break
			}
		}
	}
}

// If the server has a port for each transfer, two thousand transfers are under way at once over
// four sockets.
func TestPoolManyPerServer(t *testing.T) {
	const transfers = 2000
	f, to := newFanServer(t, transfers, false)
	p := newPool(t, &Pool{
		Client: &Client{NoOptions: true}, Transfers: transfers, Sockets: 4, ManyPerServer: true,
		MinTimer: tftptest.Patience, // so that no request is repeated
	})
	here := store.Mem(0)
	for i := range transfers {
		to.Name = fmt.Sprint("file", i)
		p.get(t.Context(), to, here, to.Name)
	}
	for key, err := range p.wait() {
		if err != nil {
			t.Errorf("%s: %v", key, err)
		}
		tftptest.WantFile(t, here, key, append(tftptest.Content(key, 512), key...))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.clients) != 4 {
		t.Errorf("the requests came from %d ports, want 4", len(f.clients))
	}
}

// A server with a single port gets one request at a time from each socket, even if the pool first
// takes it for a server with many ports.
func TestPoolSinglePort(t *testing.T) {
	const transfers = 60
	_, to := newFanServer(t, 0, true)
	p := newPool(t, &Pool{Client: &Client{NoOptions: true}, Sockets: 4, ManyPerServer: true})
	here := store.Mem(0)
	for i := range transfers {
		to.Name = fmt.Sprint("file", i)
		p.get(t.Context(), to, here, to.Name)
	}
	for key, err := range p.wait() {
		if err != nil {
			t.Errorf("%s: %v", key, err)
		}
		tftptest.WantFile(t, here, key, []byte(key))
	}
}
