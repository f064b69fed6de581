package tftp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/haul-project/haul/internal/linequeue"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/internal/packetio"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// A Listener is a server with its sockets open.
type Listener struct {
	Server
	bindings []*binding
	guard    guard

	bandwidth bandwidth
	memory    pool
	files     store.SharedFiles // what transfers have open
	began     time.Time

	ctx  context.Context // ends when transfers must
	halt context.CancelFunc

	workers  fileio.Workers // workers for all jobs but scans
	scans    chan *session  // for scanners
	lines    *linequeue.Queue[line]
	totals   []*totals
	crashes  atomic.Int64 // panics caught
	count    atomic.Int64 // transfers under way
	retired  chan time.Duration
	dallying atomic.Int64 // transfers that are over, and still answer repeats
}

// A binding is what serves one address.
type binding struct {
	listener       *Listener
	requestSockets []packetio.Socket // where requests come in, sharing a port; none where the shards share it
	counts         []shardCounters   // of each request socket
	shards         []*shard
	routes         routes // to shards, of what comes in by the request sockets

	// Where shards share the port, each of them gets a broadcast request, and
	// none knows who will get what follows. This one, on a port of its own,
	// answers for all; it is the last of shards, nil where it is not needed.
	broadcastShard *shard
}

// Listen opens the sockets. An address is "host:port"; without a host it
// stands for every address of the machine, in both families where it has them,
// and port 0 lets the kernel choose. Without any address it is ":69".
// Its errors wrap the kernel's, such as syscall.EADDRINUSE and EACCES.
func (s *Server) Listen(ctx context.Context, addrs ...string) (*Listener, error) {
	if len(addrs) == 0 {
		addrs = []string{fmt.Sprintf(":%d", transfer.Port)}
	}
	places := make([]Place, len(addrs))
	for i, addr := range addrs {
		places[i].Addr = addr
	}
	return s.ListenAt(ctx, places...)
}

// ListenOn takes requests from sockets that are open already, such as those
// which systemd hands over, or [Listener.Files] of another process. Those of one
// address share what comes to it. The Listener closes them in the end, or at once
// if it fails.
func (s *Server) ListenOn(ctx context.Context, conns ...*udp.Conn) (*Listener, error) {
	var places []Place
	for _, conn := range conns {
		at := slices.IndexFunc(places, func(p Place) bool { return p.Conns[0].LocalAddr() == conn.LocalAddr() })
		if at < 0 {
			places = append(places, Place{Conns: []*udp.Conn{conn}})
		} else {
			places[at].Conns = append(places[at].Conns, conn)
		}
	}
	return s.ListenAt(ctx, places...)
}

// A Place is where a Listener takes requests.
type Place struct {
	Addr  string      // to open, as for [Server.Listen]
	Conns []*udp.Conn // open already, all at one address; then Addr does not count
}

// ListenAt is Listen for places without Conns, and ListenOn for the others. Item i of
// [Listener.Addrs] is for place i.
func (s *Server) ListenAt(ctx context.Context, places ...Place) (*Listener, error) {
	l, err := s.listener(ctx)
	if err == nil && len(places) == 0 {
		err = errors.New("tftp: no socket to listen on")
	}
	for i, p := range places {
		if err == nil && len(p.Conns) > 0 {
			err = l.adopt(ctx, p.Conns)
			places[i].Conns = nil // the Listener closes them
		} else if err == nil {
			err = l.bind(ctx, p.Addr)
		}
	}
	if err != nil {
		for _, p := range places {
			for _, conn := range p.Conns {
				_ = conn.Close()
			}
		}
		if l != nil {
			_ = l.Close()
		}
		return nil, err
	}
	l.share()
	return l, nil
}

// listener returns a Listener that has no sockets yet.
func (s *Server) listener(ctx context.Context) (*Listener, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	l := &Listener{Server: *s, began: time.Now(), retired: make(chan time.Duration, 1)}
	l.setDefaults()
	l.guard.reset(&l.Server)
	l.bandwidth.set(&l.Server)
	l.files.Max = l.MaxFiles
	l.ctx, l.halt = context.WithCancel(store.WithWaits(context.WithoutCancel(ctx), l.workers.Lend))
	l.workers.Init(3*l.MaxTransfers + l.Loops) // transfers, displaced ones, and those that dally
	l.scans = make(chan *session, 2*l.MaxTransfers)
	l.lines = linequeue.New(l.writeLine, func(lost int64) { l.Log.Warn("tftp: the log was too slow", "lines lost", lost) })
	return l, nil
}

// share gives the shards the memory for buffers, and each request socket its counters.
func (l *Listener) share() {
	n := 0
	for _, b := range l.bindings {
		n += len(b.shards)
	}
	for _, b := range l.bindings {
		for range b.requestSockets {
			b.counts = append(b.counts, l.newShardCounters())
		}
	}
	l.memory.set(l.Memory, n)
	for sh := range l.allShards {
		sh.memory.pool = &l.memory
	}
}

// bind opens the sockets for one address.
func (l *Listener) bind(ctx context.Context, addr string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("tftp: listen on %s: %w", addr, err)
		}
	}()
	at, err := resolveListen(ctx, addr)
	if err != nil {
		return err
	}
	b := &binding{listener: l}
	l.bindings = append(l.bindings, b)
	conns, err := l.openRequestSockets(ctx, at)
	if l.SinglePort {
		for _, conn := range conns {
			b.shards = append(b.shards, newShard(b, conn, true))
		}
		if len(conns) > 1 {
			err = b.openBroadcastShard(ctx, at.Addr())
		}
	} else if b.requestSockets = conns; err == nil {
		err = b.openShards(ctx, at.Addr())
	}
	if err == nil && l.SinglePort {
		err = b.discardEarly()
	}
	return err
}

// adopt makes a binding of sockets that are open already, at one address.
func (l *Listener) adopt(ctx context.Context, conns []*udp.Conn) (err error) {
	b := &binding{listener: l}
	l.bindings = append(l.bindings, b)
	local := conns[0].LocalAddr()
	at := local.Addr()
	if at.IsUnspecified() && at.Is6() {
		at = netip.Addr{} // both families, in case it is of both
	}
	for _, conn := range conns {
		b.requestSockets = append(b.requestSockets, packetio.Trace(conn, l.Trace))
	}
	if l.SinglePort {
		for _, conn := range b.requestSockets {
			b.shards = append(b.shards, newShard(b, conn, true))
		}
		if b.requestSockets = nil; len(conns) > 1 {
			err = b.openBroadcastShard(ctx, at)
		}
	} else {
		err = b.openShards(ctx, at)
	}
	if err != nil {
		return fmt.Errorf("tftp: listen for %v: %w", local, err)
	}
	return nil
}

// openRequestSockets opens the sockets that requests come to: one for each loop where
// they can share the port.
func (l *Listener) openRequestSockets(ctx context.Context, at netip.AddrPort) ([]packetio.Socket, error) {
	// The first socket is opened alone: sockets that share a port would join
	// another server's of the same user, and take half of its requests.
	conn, err := l.openSocket(ctx, at, udp.Config{Busy: l.SinglePort})
	if err != nil {
		return nil, err
	}
	if l.Loops == 1 || !udp.CanSharePort {
		return []packetio.Socket{conn}, nil
	}
	at = netip.AddrPortFrom(at.Addr(), conn.LocalAddr().Port())
	_ = conn.Close()
	var conns []packetio.Socket
	for range l.Loops {
		conn, err := l.openSocket(ctx, at, udp.Config{Busy: l.SinglePort, ReusePort: true})
		if err != nil {
			closeSockets(conns)
			return nil, err
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

func (b *binding) openBroadcastShard(ctx context.Context, at netip.Addr) error {
	conn, err := b.listener.openSocket(ctx, netip.AddrPortFrom(at, 0), udp.Config{})
	if err != nil {
		return err
	}
	b.broadcastShard = newShard(b, conn, false)
	for i, sh := range b.shards {
		sh.broadcastShard, sh.forwardsBroadcast = b.broadcastShard, i == 0
	}
	b.shards = append(b.shards, b.broadcastShard)
	return nil
}

// openShards opens a socket for each loop. If the port range has too few free
// ports for all of them, fewer loops do.
func (b *binding) openShards(ctx context.Context, at netip.Addr) error {
	l := b.listener
	next := int(l.FirstPort)
	for range l.Loops {
		conn, err := l.openInRange(ctx, at, &next)
		if errors.Is(err, ErrNoPort) && len(b.shards) > 0 {
			return nil
		}
		if err != nil {
			return err
		}
		b.shards = append(b.shards, newShard(b, conn, false))
	}
	return nil
}

// ErrNoPort says that no port from FirstPort to LastPort is free. It is also a
// syscall.EADDRINUSE.
var ErrNoPort = fmt.Errorf("no port of the range is free: %w", syscall.EADDRINUSE)

// openInRange opens a socket on the first free port from *next on.
func (l *Listener) openInRange(ctx context.Context, at netip.Addr, next *int) (packetio.Socket, error) {
	if l.LastPort == 0 {
		return l.openSocket(ctx, netip.AddrPortFrom(at, 0), udp.Config{Busy: true})
	}
	for *next <= int(l.LastPort) {
		port := uint16(*next)
		*next++
		conn, err := l.openSocket(ctx, netip.AddrPortFrom(at, port), udp.Config{Busy: true})
		if !errors.Is(err, syscall.EADDRINUSE) {
			return conn, err
		}
	}
	return nil, ErrNoPort
}

func (l *Listener) openSocket(ctx context.Context, at netip.AddrPort, c udp.Config) (packetio.Socket, error) {
	c.Plain = l.Plain
	conn, err := l.open(ctx, at, c)
	if err != nil {
		return nil, err
	}
	return packetio.Trace(conn, l.Trace), nil
}

// discardEarly throws away what came while the sockets of a port were opened one by
// one: the kernel chose among fewer then, and what follows would go elsewhere.
func (b *binding) discardEarly() error {
	if len(b.shards) == 1 {
		return nil
	}
	for _, sh := range b.shards {
		for range maxDrained {
			n, err := sh.conn.Read(sh.in, time.Unix(1, 0))
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
		}
	}
	return nil
}

const maxDrained = 1024 // reads of a socket just opened

// resolveListen turns "host:port" into an address; no host stands for all.
func resolveListen(ctx context.Context, addr string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return netip.AddrPort{}, err
	}
	number, err := net.DefaultResolver.LookupPort(ctx, "udp", port)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if host == "" {
		return netip.AddrPortFrom(netip.Addr{}, uint16(number)), nil
	}
	ips, err := packetio.LookUp(ctx, host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(ips[0].Unmap(), uint16(number)), nil
}

// Addr returns the first address on which requests are taken.
func (l *Listener) Addr() netip.AddrPort { return l.bindings[0].addr() }

// Addrs returns all addresses on which requests are taken.
func (l *Listener) Addrs() []netip.AddrPort {
	var all []netip.AddrPort
	for _, b := range l.bindings {
		all = append(all, b.addr())
	}
	return all
}

func (b *binding) addr() netip.AddrPort {
	if len(b.requestSockets) > 0 {
		return b.requestSockets[0].LocalAddr()
	}
	return b.shards[0].conn.LocalAddr()
}

// allShards yields the shards of all bindings.
func (l *Listener) allShards(yield func(*shard) bool) {
	for _, b := range l.bindings {
		for _, sh := range b.shards {
			if !yield(sh) {
				return
			}
		}
	}
}

// Close closes the sockets of a Listener that shall not serve after all. One
// that serves is ended by its context.
func (l *Listener) Close() error {
	for _, b := range l.bindings {
		closeSockets(b.requestSockets)
		for _, sh := range b.shards {
			_ = sh.conn.Close()
		}
	}
	l.halt()
	return nil
}

func closeSockets(sockets []packetio.Socket) {
	for _, s := range sockets {
		_ = s.Close()
	}
}

// admit counts a new transfer, unless there are too many.
func (l *Listener) admit() bool {
	if l.count.Add(1) > int64(l.MaxTransfers) {
		l.count.Add(-1)
		return false
	}
	return true
}

// displace counts a transfer that takes the place of another, which may still
// wait for its job. There may be as many of these again and no more, or a store
// that hangs would gather jobs without bound.
func (l *Listener) displace() bool {
	if l.count.Add(1) > 2*int64(l.MaxTransfers) {
		l.count.Add(-1)
		return false
	}
	return true
}

// leave takes back what admit counted.
func (l *Listener) leave() { l.count.Add(-1) }

// Counters returns the totals so far.
func (l *Listener) Counters() Counters {
	c := Counters{
		LinesLost: l.lines.Lost(),
		Crashes:   l.crashes.Load(),
		Live:      l.count.Load(),
		Dallying:  l.dallying.Load(),
	}
	for _, t := range l.totals {
		c.PacketsIn += t.packetsIn.Load()
		c.PacketsOut += t.packetsOut.Load()
		c.BytesIn += t.bytesIn.Load()
		c.BytesOut += t.bytesOut.Load()
		c.Strays += t.strays.Load()
		c.Unsent += t.unsent.Load()
		for i := range c.TurnedAway {
			c.TurnedAway[i] += t.turnedAway[i].Load()
		}
	}
	for sh := range l.allShards {
		c.Held += sh.memory.held.Load()
	}
	return c
}

// newShardCounters returns the counters of one more loop. All are made before the loops run.
func (l *Listener) newShardCounters() shardCounters {
	t := new(totals)
	l.totals = append(l.totals, t)
	return shardCounters{totals: t}
}
