package tftp

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// Port is the port on which servers listen for requests.
const Port = 69

// Uploads says which files clients may write.
type Uploads uint8

// The kinds of uploads a server takes.
const (
	NoUploads        Uploads = iota // none
	CreateUploads                   // new files; no existing file is touched
	OverwriteUploads                // new files, and new content for existing ones
)

// Defaults of a Server.
const (
	DefaultMaxTransfers = 16384
	DefaultMaxUpload    = 16 << 30 // bytes
	DefaultGrace        = 10 * time.Second

	// DefaultWindow is the largest window confirmed: enough for 3 ms at
	// 100 MB/s in blocks of 1432 bytes. It is also what a forged request and a
	// forged ACK 0 can aim at a victim.
	DefaultWindow = 256
)

// A Server serves the files of a store over TFTP. Its fields must not change
// once it listens.
type Server struct {
	Store store.Store

	Upload    Uploads
	MaxUpload int64 // largest upload in bytes; 0 means DefaultMaxUpload

	// Limits bounds what is agreed on with clients; a zero Window means
	// DefaultWindow, other zero fields the whole range of the RFCs.
	Limits transfer.Limits

	MaxTransfers int           // at the same time; 0 means DefaultMaxTransfers
	Loops        int           // event loops, each with its socket; 0 means one per CPU
	Grace        time.Duration // how long transfers may run on after the end; 0 means DefaultGrace
	Log          *slog.Logger  // one line for each transfer; nil logs nothing
	Plain        bool          // use no kernel offloads, as if there were none

	open func(context.Context, netip.AddrPort, udp.Config) (socket, error) // for tests
}

// A Listener is a server with its sockets open.
type Listener struct {
	Server
	doors  []socket // where requests come in, sharing a port
	shards []*shard
	seed   maphash.Seed

	queue   chan *session // for workers
	scans   chan *session // for scanners
	lines   chan report   // for the log
	unsent  atomic.Int64  // messages that the kernel would not take
	unsaid  atomic.Int64  // lines that the log had no room for
	count   atomic.Int64  // transfers under way
	resting atomic.Int64  // transfers that are over, and still answer repeats
	strays  atomic.Int64  // datagrams that belonged to no transfer
	refused atomic.Int64  // requests turned away unread
}

// ListenAndServe serves until ctx ends, and then gives running transfers the
// Grace to finish. addr is as for [Server.Listen].
func (s *Server) ListenAndServe(ctx context.Context, addr string) error {
	l, err := s.Listen(ctx, addr)
	if err != nil {
		return err
	}
	return l.Serve(ctx)
}

// Listen opens the sockets. addr is "host:port"; without a host it stands for
// every address of the machine, and port 0 lets the kernel choose.
// Its errors wrap the kernel's, such as syscall.EADDRINUSE and EACCES.
func (s *Server) Listen(ctx context.Context, addr string) (*Listener, error) {
	if s.Store == nil {
		return nil, errors.New("tftp: server has no store")
	}
	at, err := resolveListen(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("tftp: listen on %s: %w", addr, err)
	}
	l := &Listener{Server: *s, seed: maphash.MakeSeed()}
	l.setDefaults()
	if err := l.openAll(ctx, at); err != nil {
		l.closeAll()
		return nil, fmt.Errorf("tftp: listen on %s: %w", addr, err)
	}
	return l, nil
}

func (l *Listener) setDefaults() {
	if l.Limits.Window == 0 {
		l.Limits.Window = DefaultWindow
	}
	if l.MaxTransfers <= 0 {
		l.MaxTransfers = DefaultMaxTransfers
	}
	if l.Loops <= 0 {
		l.Loops = runtime.GOMAXPROCS(0)
	}
	if l.Grace <= 0 {
		l.Grace = DefaultGrace
	}
	if l.open == nil {
		l.open = openSocket
	}
	l.queue = make(chan *session, 2*l.MaxTransfers+l.Loops)
	l.scans = make(chan *session, l.MaxTransfers)
	l.lines = make(chan report, maxLines)
}

func (s *Server) maxUpload() int64 {
	if s.MaxUpload > 0 {
		return s.MaxUpload
	}
	return DefaultMaxUpload
}

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
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(ips[0].Unmap(), uint16(number)), nil
}

// openAll opens the doors and the shards' sockets.
func (l *Listener) openAll(ctx context.Context, at netip.AddrPort) error {
	// The first door is opened alone: sockets that share a port would join
	// another server's of the same user, and take half of its requests.
	door, err := l.open(ctx, at, udp.Config{Plain: l.Plain})
	if err != nil {
		return err
	}
	l.doors = append(l.doors, door)
	if l.Loops > 1 && udp.CanSharePort {
		at = netip.AddrPortFrom(at.Addr(), door.LocalAddr().Port())
		if err := l.shareDoors(ctx, at); err != nil {
			return err
		}
	}
	for range l.Loops {
		conn, err := l.open(ctx, netip.AddrPortFrom(at.Addr(), 0), udp.Config{Plain: l.Plain})
		if err != nil {
			return err
		}
		l.shards = append(l.shards, newShard(l, conn))
	}
	return nil
}

// shareDoors replaces the one door by one for each loop.
func (l *Listener) shareDoors(ctx context.Context, at netip.AddrPort) error {
	_ = l.doors[0].Close()
	l.doors = nil
	for range l.Loops {
		door, err := l.open(ctx, at, udp.Config{ReusePort: true, Plain: l.Plain})
		if err != nil {
			return err
		}
		l.doors = append(l.doors, door)
	}
	return nil
}

func (l *Listener) closeAll() {
	for _, door := range l.doors {
		_ = door.Close()
	}
	for _, sh := range l.shards {
		_ = sh.conn.Close()
	}
}

// Addr returns the address on which requests are taken.
func (l *Listener) Addr() netip.AddrPort { return l.doors[0].LocalAddr() }

// Serve takes requests until ctx ends or a socket fails. Then it gives running
// transfers the Grace to finish, ends the others, and closes the sockets.
func (l *Listener) Serve(ctx context.Context) error {
	defer l.closeAll()
	var hands, doors, loops sync.WaitGroup
	for range workers {
		hands.Go(func() { work(l.queue) })
	}
	for range scanners {
		hands.Go(func() { work(l.scans) })
	}
	logged := make(chan struct{})
	go l.keepLog(logged)
	failed := make(chan error, len(l.doors)+len(l.shards))
	for _, door := range l.doors {
		doors.Go(func() { failed <- l.watch(door) })
	}
	for _, sh := range l.shards {
		loops.Go(func() { failed <- sh.run() })
	}

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	for _, door := range l.doors {
		_ = door.Close()
	}
	doors.Wait()
	l.stopShards(&loops)
	close(l.queue)
	close(l.scans)
	hands.Wait()
	for _, sh := range l.shards {
		sh.bury()
	}
	close(l.lines)
	select {
	case <-logged:
	case <-time.After(logGrace): // whoever reads the log has stopped reading
	}
	return err
}

// stopShards ends the loops, at once when the grace is over.
func (l *Listener) stopShards(loops *sync.WaitGroup) {
	for _, sh := range l.shards {
		sh.stop(false)
	}
	halt := time.AfterFunc(l.Grace, func() {
		for _, sh := range l.shards {
			sh.stop(true)
		}
	})
	loops.Wait()
	halt.Stop()
}

// admit counts a new transfer, unless there are too many.
func (l *Listener) admit() bool {
	if l.count.Add(1) > int64(l.MaxTransfers) {
		l.count.Add(-1)
		return false
	}
	return true
}

// leave takes back what admit counted.
func (l *Listener) leave() { l.count.Add(-1) }

// maxRefusals is how many malformed requests a second are answered by each
// door.
const maxRefusals = 100

// watch takes requests from a door and hands them to the shards, until the
// door is closed.
func (l *Listener) watch(door socket) error {
	limits := door.Limits()
	in := make([]udp.Message, limits.Messages)
	for i := range in {
		in[i].Data = make([]byte, max(limits.Datagram, 1<<16))
	}
	out := newOutbox(door, outboxMessages, 0)
	var second int64
	answered := 0
	for {
		n, err := door.Read(in, time.Time{})
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("tftp: receive requests on %v: %w", door.LocalAddr(), err)
		}
		for i := range in[:n] {
			m := &in[i]
			for b := range m.Datagrams() {
				fault := l.request(m, b)
				if fault == nil {
					continue
				}
				if now := time.Now().Unix(); now != second {
					second, answered = now, 0
				}
				if answered++; answered <= maxRefusals {
					out.fault(m.Peer, m.Local, fault.Code, fault.Message)
				}
			}
		}
		out.flush()
	}
}

// request hands a request to the peer's shard, or returns what to answer.
func (l *Listener) request(m *udp.Message, b []byte) *transfer.Error {
	q, err := transfer.ParseRequest(b)
	if err == nil {
		if !l.shardOf(m.Peer).push(request{Request: q, peer: m.Peer, local: m.Local}) {
			l.refused.Add(1)
		}
		return nil
	}
	l.refused.Add(1)
	// An ERROR is never answered, lest two hosts go on for ever.
	if op := transfer.OpcodeOf(b); op == transfer.ErrorPacket || op == 0 {
		return nil
	}
	var fault *transfer.Error
	errors.As(err, &fault)
	return fault
}

// shardOf returns the shard that a peer falls to, always the same.
func (l *Listener) shardOf(peer netip.AddrPort) *shard {
	return l.shards[maphash.Comparable(l.seed, peer)%uint64(len(l.shards))]
}
