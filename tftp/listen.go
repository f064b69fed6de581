package tftp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/haul-project/haul/internal/linequeue"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/internal/packetio"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// Listen opens the sockets of a server. An address is "host:port". Without a host it means all
// addresses of the machine, IPv4 and IPv6 if the machine has both. With port 0 the kernel chooses a
// port. If addrs is empty, Listen uses ":69". Its errors wrap the errors of the kernel, such as
// syscall.EADDRINUSE and EACCES. Cancelling ctx only stops name lookups; the contexts of Read and
// Write get its values.
func (c *Config) Listen(ctx context.Context, addrs ...string) (*Server, error) {
	if len(addrs) == 0 {
		addrs = []string{fmt.Sprintf(":%d", transfer.Port)}
	}
	places := make([]Place, len(addrs))
	for i, addr := range addrs {
		places[i].Addr = addr
	}
	return c.ListenAt(ctx, places...)
}

// A Place is an address, or a list of open sockets, on which a Server receives requests.
type Place struct {
	Addr  string      // an address to open, in the format of [Config.Listen]
	Conns []*udp.Conn // open sockets, all bound to one address; if not empty, Addr is ignored
}

// ListenAt is like [Config.Listen], but also takes sockets that are already open, such as those of
// systemd, or duplicates from [Server.Files] in another process. Item i of [Server.Addrs] is the
// address of place i. The Server closes the sockets when Serve returns or Close is called; if
// ListenAt fails, ListenAt closes them.
func (c *Config) ListenAt(ctx context.Context, places ...Place) (*Server, error) {
	return c.listen(ctx, testHooks{}, places)
}

func (c *Config) listen(ctx context.Context, tests testHooks, places []Place) (*Server, error) {
	srv, err := c.server(ctx, tests)
	if err == nil && len(places) == 0 {
		err = errors.New("tftp: no socket to listen on")
	}
	for i, p := range places {
		if err == nil && len(p.Conns) > 0 {
			err = srv.adopt(ctx, p.Conns)
			places[i].Conns = nil // from now on the Server closes them
		} else if err == nil {
			err = srv.bind(ctx, p.Addr)
		}
	}
	if err != nil {
		for _, p := range places {
			for _, conn := range p.Conns {
				_ = conn.Close()
			}
		}
		if srv != nil {
			_ = srv.Close()
		}
		return nil, err
	}
	srv.share()
	return srv, nil
}

// server returns a Server without sockets.
func (c *Config) server(ctx context.Context, tests testHooks) (*Server, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	srv := &Server{config: *c, tests: tests, began: time.Now(), retired: make(chan time.Duration, 1)}
	srv.config.setDefaults()
	if tests.open == nil {
		srv.tests.open = packetio.Open
		if tests.mtu == nil {
			srv.tests.mtu = udp.PathMTU
		}
	}
	srv.guard.reset(&srv.config)
	srv.bandwidth.set(&srv.config)
	srv.files.Max = srv.config.MaxFiles
	srv.ctx, srv.halt = context.WithCancel(store.WithWaits(context.WithoutCancel(ctx), srv.workers.Lend))
	// The jobs are those of transfers under way, displaced transfers and dallying ones.
	srv.workers.Init(3*srv.config.MaxTransfers + srv.config.Loops)
	srv.scans = make(chan fileio.JobOwner, 2*srv.config.MaxTransfers)
	srv.lines = linequeue.New(srv.writeLine, func(lost int64) { srv.config.Log.Warn("tftp: the log was too slow", "lines lost", lost) })
	srv.few.Write = func(_ string, n int64, last string) bool { return srv.lines.Add(line{leftOut: n, last: last}) }
	return srv, nil
}

// share divides the memory for buffers among the shards. It also creates the counters of the
// request sockets.
func (srv *Server) share() {
	n := 0
	for _, b := range srv.bindings {
		n += len(b.shards)
	}
	for _, b := range srv.bindings {
		for range b.requestSockets {
			b.counts = append(b.counts, srv.newShardCounters())
		}
	}
	srv.memory.set(srv.config.Memory, n)
	for sh := range srv.allShards {
		sh.memory.pool = &srv.memory
	}
}

// bind opens the sockets for one address.
func (srv *Server) bind(ctx context.Context, addr string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("tftp: listen on %s: %w", addr, err)
		}
	}()
	at, err := resolveListen(ctx, addr)
	if err != nil {
		return err
	}
	b := &binding{server: srv}
	srv.bindings = append(srv.bindings, b)
	conns, err := srv.openRequestSockets(ctx, at)
	if srv.config.SinglePort {
		for _, conn := range conns {
			b.shards = append(b.shards, newShard(b, conn, true))
		}
		if len(conns) > 1 {
			err = b.openBroadcastShard(ctx, at.Addr())
		}
	} else if b.requestSockets = conns; err == nil {
		err = b.openShards(ctx, at.Addr())
	}
	if err == nil && srv.config.SinglePort {
		err = b.discardEarly()
	}
	return err
}

// adopt makes a binding of sockets that are already open, all bound to one address.
func (srv *Server) adopt(ctx context.Context, conns []*udp.Conn) (err error) {
	b := &binding{server: srv}
	srv.bindings = append(srv.bindings, b)
	local := conns[0].LocalAddr()
	at := local.Addr()
	if at.IsUnspecified() && at.Is6() {
		at = netip.Addr{} // IPv4 and IPv6, because the socket may serve both
	}
	for _, conn := range conns {
		b.requestSockets = append(b.requestSockets, packetio.Trace(conn, srv.config.Hooks.Trace))
	}
	if srv.config.SinglePort {
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

// openRequestSockets opens the sockets for requests: one for each loop if sockets can share a port,
// and otherwise one.
func (srv *Server) openRequestSockets(ctx context.Context, at netip.AddrPort) ([]packetio.Socket, error) {
	// First open a socket that does not share its port, to find out whether the port is free.
	// Sockets that share it could join those of another server of the same user, and take half of
	// its requests.
	conn, err := srv.openSocket(ctx, at, udp.Config{Busy: srv.config.SinglePort})
	if err != nil {
		return nil, err
	}
	if srv.config.Loops == 1 || !udp.CanSharePort {
		return []packetio.Socket{conn}, nil
	}
	at = netip.AddrPortFrom(at.Addr(), conn.LocalAddr().Port())
	_ = conn.Close()
	var conns []packetio.Socket
	for range srv.config.Loops {
		conn, err := srv.openSocket(ctx, at, udp.Config{Busy: srv.config.SinglePort, ReusePort: true})
		if err != nil {
			closeSockets(conns)
			return nil, err
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

func (b *binding) openBroadcastShard(ctx context.Context, at netip.Addr) error {
	conn, err := b.server.openSocket(ctx, netip.AddrPortFrom(at, 0), udp.Config{})
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

// openShards opens a socket for each loop. If the port range has too few free ports, there are
// fewer loops.
func (b *binding) openShards(ctx context.Context, at netip.Addr) error {
	srv := b.server
	next := int(srv.config.FirstPort)
	for range srv.config.Loops {
		conn, err := srv.openInRange(ctx, at, &next)
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

// ErrNoPort says that no port from FirstPort to LastPort is free. It also matches
// syscall.EADDRINUSE.
var ErrNoPort = fmt.Errorf("no port of the range is free: %w", syscall.EADDRINUSE)

// openInRange opens a socket on the first free port of the range that is not below *next, and sets
// *next to the port after it.
func (srv *Server) openInRange(ctx context.Context, at netip.Addr, next *int) (packetio.Socket, error) {
	if srv.config.LastPort == 0 {
		return srv.openSocket(ctx, netip.AddrPortFrom(at, 0), udp.Config{Busy: true})
	}
	for *next <= int(srv.config.LastPort) {
		port := uint16(*next)
		*next++
		conn, err := srv.openSocket(ctx, netip.AddrPortFrom(at, port), udp.Config{Busy: true})
		if !errors.Is(err, syscall.EADDRINUSE) {
			return conn, err
		}
	}
	return nil, ErrNoPort
}

func (srv *Server) openSocket(ctx context.Context, at netip.AddrPort, c udp.Config) (packetio.Socket, error) {
	c.Plain = srv.config.Plain
	conn, err := srv.tests.open(ctx, at, c)
	if err != nil {
		return nil, err
	}
	return packetio.Trace(conn, srv.config.Hooks.Trace), nil
}

// discardEarly drops packets that arrived while the sockets of a port were opened one after
// another. The kernel chooses a socket by the peer and the number of sockets, so later packets of
// the same peers may arrive at other sockets.
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

const maxDrained = 1024 // the most reads from a newly opened socket

// resolveListen turns "host:port" into an address. Without a host, the result has the zero
// netip.Addr.
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

// Addr returns the first address on which the server receives requests.
func (srv *Server) Addr() netip.AddrPort { return srv.bindings[0].addr() }

// Addrs returns all addresses on which the server receives requests.
func (srv *Server) Addrs() []netip.AddrPort {
	var all []netip.AddrPort
	for _, b := range srv.bindings {
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

// allShards calls yield with each shard of all bindings.
func (srv *Server) allShards(yield func(*shard) bool) {
	for _, b := range srv.bindings {
		for _, sh := range b.shards {
			if !yield(sh) {
				return
			}
		}
	}
}

// Close closes the sockets of a Server whose Serve is never called. To stop a running Serve, cancel
// its context instead.
func (srv *Server) Close() error {
	for _, b := range srv.bindings {
		closeSockets(b.requestSockets)
		for _, sh := range b.shards {
			_ = sh.conn.Close()
		}
	}
	srv.halt()
	return nil
}

func closeSockets(sockets []packetio.Socket) {
	for _, s := range sockets {
		_ = s.Close()
	}
}

// Counters returns the current values of the counters.
func (srv *Server) Counters() Counters {
	c := Counters{
		LinesLost: srv.lines.Lost(),
		Crashes:   srv.crashes.Load(),
		Live:      srv.count.Load(),
		Dallying:  srv.dallying.Load(),
	}
	for _, t := range srv.totals {
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
	for sh := range srv.allShards {
		c.Held += sh.memory.held.Load()
	}
	return c
}

// newShardCounters returns the counters for one more loop. It must not be called once the loops
// run.
func (srv *Server) newShardCounters() shardCounters {
	t := new(totals)
	srv.totals = append(srv.totals, t)
	return shardCounters{totals: t}
}
