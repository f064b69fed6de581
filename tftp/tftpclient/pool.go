package tftpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"

	"github.com/haul-project/haul/internal/poolhooks"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/transfer"
)

// Bounds and defaults of a [Pool].
const (
	defaultPoolTransfers = 1024
	defaultPoolSockets   = 64

	// maxPoolPending is how many transfers may wait or be under way.
	maxPoolPending = 1 << 20

	maxResolvers = 16 // largest number of host names looked up at once
)

var (
	// ErrPoolClosed is the error of a transfer that was not over when its [Pool] was closed.
	ErrPoolClosed = errors.New("client pool is closed")

	// ErrPoolFull says that 1,048,576 transfers wait or are under way.
	ErrPoolFull = errors.New("too many transfers wait")
)

// A Pool runs thousands of transfers at once, over few sockets and with few goroutines. Each of its
// loops runs a share of the transfers. The zero Pool is ready for use; its fields must not change
// after the first use. Its methods may be called concurrently.
//
// # Sockets and transfer IDs
//
// In TFTP (RFC 1350 §4) two transfer IDs identify a transfer: the client's UDP port and the
// server's. A Client uses its own port for each transfer. A Pool distinguishes the transfers of one
// socket only by the server's address and port, and so follows these rules:
//
//   - Transfers with different hosts share a socket. Packets that come from a host before its
//     port is known belong to the one transfer that waits for them.
//   - Transfers with one host get a socket each by default. Many servers treat a second request
//     from one port as a restart of the first, or answer all requests from one port. So Sockets
//     bounds the transfers that are under way with one host; the others wait.
//   - With ManyPerServer they share sockets if the host answers each request from a new port.
//     Until a request is answered, its socket sends no other request to that host, because the
//     answer, even if it is an ERROR, could be for either request. A host that answers from the
//     port to which the request was sent has a single port. From then on, each transfer with it
//     gets its own socket.
//   - A host is an address. If one host is asked at several of its addresses, it counts as
//     several, and may mix up requests that come from one socket.
//   - A socket is closed when its transfers are over, and the next socket has another port. An
//     open socket remembers the ID of a finished transfer for ten seconds, so that late packets of
//     one transfer never reach another.
//
// If Sockets is at least Transfers, each transfer has its own socket.
//
// A completed download answers repeats of the last block for a moment (RFC 1350 §6), but only until
// another transfer needs its socket.
type Pool struct {
	// Client holds the options to ask for, and Trace, which is called without local addresses. Its
	// Progress and Plain are not used. A nil Client means the zero Client. If its Window is 0,
	// windows become smaller the more transfers share a socket and the memory.
	Client *Client

	// Offer, if set, holds the options to ask for, exactly as given, in place of those of Client.
	// If its HasSize is set, an upload announces its size.
	Offer *transfer.Options

	Transfers int // largest number of transfers at once; 0 means 1024
	Sockets   int // largest number of sockets; 0 means 64
	Loops     int // goroutines that run transfers; 0 means 1

	// ManyPerServer lets transfers with one host share a socket. It is for servers that answer each
	// request from a new port, and that do not treat another request from the same client port as a
	// restart of the first. The server of this module does treat it as a restart.
	ManyPerServer bool

	// Limit is how long one transfer may take once it has begun. 0 means no limit; a transfer that
	// makes no progress still fails.
	Limit time.Duration

	// MinTimer is the shortest wait for an answer before a packet is sent again. 0 means that the
	// measured round trips determine the wait.
	MinTimer time.Duration

	once    sync.Once
	failed  error // why the pool has not started; nil if it has
	common  poolCommon
	running sync.WaitGroup  // counts the loops that run
	life    context.Context // cancelled by Close, to stop all look-ups of hosts
	end     context.CancelCauseFunc

	mu        sync.Mutex
	loops     []*poolLoop    // guarded by mu; set once, when the pool starts
	closed    bool           // guarded by mu; Close was called
	names     []*poolRequest // guarded by mu; requests whose host must be looked up
	resolvers int            // guarded by mu; number of goroutines that look up hosts
}

// Get starts a download like [Client.Get], and returns at once. Workers call create and the
// Upload's methods, since they may wait for a disk.
//
// The function done, if not nil, is called once with the result, by a loop or by the goroutine that
// looked up the host in vain. It must return soon, and may start further transfers. The error
// passed to done is an error of [Client.Get], ErrPoolClosed, or the error of ctx. The transfer also
// stops when ctx is cancelled. Get itself returns an error, and does not call done, if the target
// is invalid, or if the pool is closed, is full, or cannot open its sockets.
func (p *Pool) Get(ctx context.Context, t Target, create func(size int64) (store.Upload, error), done func(Result, error)) error {
	return p.submit(&poolRequest{ctx: ctx, target: t, create: create, done: done})
}

// GetBlocks is like Get for content that is inspected rather than stored. The mode must be octet.
func (p *Pool) GetBlocks(ctx context.Context, t Target, w BlockWriter, done func(Result, error)) error {
	if t.Mode != transfer.Octet {
		return fmt.Errorf("get %v: blocks come in mode octet only", t)
	}
	return p.submit(&poolRequest{ctx: ctx, target: t, blocks: w, done: done})
}

// Put starts an upload of size bytes of src, like [Client.Put], and returns at once. If src is a
// [store.TryReader], loops read the data that is available without waiting, and workers read the
// rest. In all other respects Put is like Get.
func (p *Pool) Put(ctx context.Context, t Target, src io.ReaderAt, size int64, done func(Result, error)) error {
	return p.submit(&poolRequest{ctx: ctx, target: t, write: true, src: src, size: size, done: done})
}

// submit passes a request to a loop, once its host's address is known.
func (p *Pool) submit(q *poolRequest) error {
	if err := q.target.Check(); err != nil {
		return err
	}
	p.once.Do(func() { p.failed = p.start(poolhooks.From(q.ctx)) })
	if p.failed != nil {
		return p.failed
	}
	q.plain = p.common.client.NoOptions
	ip, err := netip.ParseAddr(q.target.Host)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return ErrPoolClosed
	case p.common.pending.size() >= maxPoolPending:
		return ErrPoolFull
	}
	p.common.pending.add()
	if err == nil {
		q.addr = ip.Unmap()
		if err = p.pick().inbox.push(q); err != nil {
			p.common.pending.leave()
		}
		return err
	}
	p.names = append(p.names, q)
	if p.resolvers < maxResolvers {
		p.resolvers++
		go p.resolve()
	}
	return nil
}

// resolve looks up host names until the queue of names is empty.
func (p *Pool) resolve() {
	for {
		p.mu.Lock()
		if len(p.names) == 0 {
			p.resolvers--
			p.names = nil
			p.mu.Unlock()
			return
		}
		q := p.names[0]
		p.names[0] = nil
		p.names = p.names[1:]
		loop := p.pick()
		p.mu.Unlock()
		ips, err := p.lookUp(q)
		if err == nil {
			for i := range ips {
				ips[i] = ips[i].Unmap()
			}
			q.addr, q.more = ips[0], ips[1:]
			err = loop.inbox.push(q)
		}
		if err != nil {
			q.end(Result{}, err)
			p.common.pending.leave()
		}
	}
}

// lookUp returns the addresses of a request's host. It returns ErrPoolClosed if the pool is closed
// during the look-up.
func (p *Pool) lookUp(q *poolRequest) ([]netip.Addr, error) {
	ctx, cancel := context.WithCancelCause(q.ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.life, func() { cancel(ErrPoolClosed) })()
	ips, err := lookUpFew(ctx, q.target.Host)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return ips, err
}

// pick returns the loop with the fewest transfers.
func (p *Pool) pick() *poolLoop {
	least := p.loops[0]
	for _, lp := range p.loops[1:] {
		if lp.inbox.load.Load() < least.inbox.load.Load() {
			least = lp
		}
	}
	return least
}

// start opens the sockets of the loops and runs the loops.
func (p *Pool) start(hooks poolhooks.Hooks) error {
	c := &p.common
	c.poolSettings = p.settings(hooks)
	n := min(max(1, p.Loops), c.transfers, c.sockets)
	var loops []*poolLoop
	for i := range n {
		lp, err := newPoolLoop(c, share(c.transfers, n, i), share(c.sockets, n, i))
		if err != nil {
			for _, lp := range loops {
				_ = lp.set.Close()
			}
			return fmt.Errorf("tftp: open a client pool: %w", err)
		}
		loops = append(loops, lp)
	}
	p.life, p.end = context.WithCancelCause(context.Background())
	c.workers.Init(c.transfers)
	for _, lp := range loops {
		p.running.Go(lp.run)
	}
	p.mu.Lock()
	p.loops = loops
	p.mu.Unlock()
	return nil
}

// settings returns the settings in the fields of p, with defaults in place of zeros.
func (p *Pool) settings(hooks poolhooks.Hooks) poolSettings {
	s := poolSettings{
		client: p.Client, offered: p.Offer, transfers: p.Transfers, sockets: p.Sockets,
		manyPerServer: p.ManyPerServer, limit: p.Limit, minTimer: p.MinTimer, hooks: hooks,
	}
	if s.client == nil {
		s.client = new(Client)
	}
	if s.transfers <= 0 {
		s.transfers = defaultPoolTransfers
	}
	if s.sockets <= 0 {
		s.sockets = defaultPoolSockets
	}
	s.private = s.sockets >= s.transfers
	return s
}

// share divides n into `of` parts that differ by at most 1, and returns the size of part i.
func share(n, of, i int) int {
	part := n / of
	if i < n%of {
		part++
	}
	return part
}

// Wait waits until all transfers are over, and no download repeats its last ACK any more.
func (p *Pool) Wait() { p.common.pending.wait() }

// Close ends all transfers that are under way or wait, with [ErrPoolClosed]. It returns when the
// done functions of all these transfers have been called and all sockets are closed. A done
// function must not call Close.
func (p *Pool) Close() error {
	p.once.Do(func() { p.failed = ErrPoolClosed })
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	p.mu.Unlock()
	if p.failed != nil {
		return nil
	}
	p.end(ErrPoolClosed)
	for _, lp := range p.loops {
		lp.inbox.close(ErrPoolClosed)
	}
	p.Wait()
	for _, lp := range p.loops {
		lp.inbox.exit()
	}
	p.running.Wait()
	if first {
		p.common.workers.End(false)
	}
	return nil
}

// PoolStats holds the counts of a [Pool].
type PoolStats struct {
	Answered int64 // transfers that a server has answered
	Bytes    int64 // bytes of file content moved, without repeats
	// Idle is how long each loop has waited for packets, except while only downloads were left that
	// are done and dally (RFC 1350 §6).
	Idle []time.Duration
}

// Stats returns the current counts of p.
func (p *Pool) Stats() PoolStats {
	var st PoolStats
	p.mu.Lock()
	loops := p.loops
	p.mu.Unlock()
	for _, lp := range loops {
		st.Answered += lp.answered.Load()
		st.Bytes += lp.bytes.Load()
		st.Idle = append(st.Idle, time.Duration(lp.idled.Load()))
	}
	return st
}
