package mux

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
)

const (
	// laneBuffer is how many bytes of replies are read ahead: enough for many
	// short ones, and little enough that the data of a long one goes to its
	// place at once.
	laneBuffer = 4 << 10

	// maxSend is the most bytes in one Write to a channel.
	maxSend = 256 << 10

	// maxGather is how long a packet of data may be to be copied to others, so
	// that they go out as one.
	maxGather = 16 << 10

	// keepText is the most bytes of a buffer for requests that is kept.
	keepText = 64 << 10

	// laneEnd is how long a lane that has failed may take to end before its
	// connection is closed.
	laneEnd = 5 * time.Second

	// packetRoom is what a packet has besides its data, at most, as OpenSSH
	// reckons it.
	packetRoom = 1 << 10
)

// A Lane is one SFTP session. One goroutine reads its replies, and one writes
// requests: whatever has gathered since its last write goes out as one.
//
// Only the writer may wait for the server to read. If the reader did, and the
// server for us, both would wait for ever.
type Lane struct {
	mux    *Mux
	conn   *connection
	stream io.ReadWriteCloser
	in     *bufio.Reader
	head   [wire.DataHeaderSize]byte // reader
	body   []byte                    // reader: the packet that is read
	parsed wire.Reply                // reader: what it says
	moved  atomic.Int64              // when a byte last went either way, in nanoseconds since 1970

	// All of mux.mu:
	n       int // its number
	era     int // of losses, when it was opened
	due     sync.Cond
	text    []byte // requests to be sent
	spare   []byte
	sending bool            // what was in text
	bulk    Queue[outgoing] // packets of data, behind them
	pending int             // requests to be answered
	slow    int             // of these, ones that may take for ever
	running int             // goroutines
	timer   *time.Timer     // to see whether the server stalls
	err     error           // why it ends
	gone    bool
}

// A Memory is what a packet of data is in. written is called, under mux.mu, when no
// lane reads the packet any more.
type Memory interface{ Written() }

// An outgoing is a packet of data that is to be sent.
type outgoing struct {
	b      []byte
	memory Memory // what b is in
}

// newLane returns a lane that only its caller knows.
func newLane(m *Mux, conn *connection, s io.ReadWriteCloser) *Lane {
	l := &Lane{mux: m, conn: conn, stream: s}
	l.due.L = &m.mu
	l.in = bufio.NewReaderSize(laneReader{l}, laneBuffer)
	l.timer = time.AfterFunc(time.Hour, l.look)
	l.timer.Stop()
	return l
}

// A laneReader notes that something came.
type laneReader struct{ l *Lane }

func (r laneReader) Read(p []byte) (int, error) {
	n, err := r.l.stream.Read(p)
	if n > 0 {
		r.l.moves()
	}
	return n, err
}

func (l *Lane) moves() { l.moved.Store(time.Now().UnixNano()) }

// start starts the goroutines. The caller holds mux.mu.
func (l *Lane) start() {
	l.running = 2
	l.mux.work.Go(func() { l.end(l.read()) })
	l.mux.work.Go(func() { l.end(l.write()) })
}

// end is called by both goroutines when they end.
func (l *Lane) end(err error) {
	m := l.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	l.fail(err)
	if l.running--; l.running == 0 {
		l.timer.Stop()
		m.removeLane(l)
	}
}

// fail ends a lane. The caller holds mux.mu.
func (l *Lane) fail(err error) {
	if l.err != nil {
		return
	}
	l.err = err
	l.due.Signal()
	// To close a channel may take as long as the connection likes; if it takes
	// too long, that one goes too.
	l.mux.work.Go(func() { _ = l.stream.Close() })
	l.timer.Reset(laneEnd)
}

// write sends what there is to send.
func (l *Lane) write() error {
	m := l.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		for l.err == nil && len(l.text) == 0 && l.bulk.Len() == 0 {
			l.due.Wait()
		}
		if l.err != nil {
			l.discard()
			return l.err
		}
		var err error
		if len(l.text) > 0 {
			out := l.text
			l.text, l.spare = l.spare[:0], nil
			l.sending = true
			m.mu.Unlock()
			err = l.send(out)
			m.mu.Lock()
			l.sending = false
			m.wakeDrain()
			if cap(out) <= keepText {
				l.spare = out[:0]
			}
		} else {
			o, _ := l.bulk.Pop()
			m.mu.Unlock()
			err = l.send(o.b)
			m.mu.Lock()
			o.memory.Written()
		}
		if err != nil {
			l.discard()
			return lost("write", err)
		}
	}
}

func (l *Lane) send(b []byte) error {
	for len(b) > 0 {
		n, err := l.stream.Write(b[:min(len(b), maxSend)])
		if err != nil {
			return err
		}
		l.moves()
		b = b[n:]
	}
	return nil
}

// discard forgets packets that will not be sent. The caller holds mux.mu.
func (l *Lane) discard() {
	for {
		o, ok := l.bulk.Pop()
		if !ok {
			return
		}
		o.memory.Written()
	}
}

// push queues a packet of data. The caller holds mux.mu.
func (l *Lane) push(o outgoing) {
	switch {
	case l.err != nil:
		o.memory.Written() // it never will be
	case len(o.b) <= maxGather:
		l.text = append(l.text, o.b...)
		o.memory.Written()
	default:
		l.bulk.Push(o)
	}
	l.due.Signal()
}

// expect counts a request that is sent on l. The caller holds mux.mu.
func (l *Lane) expect(slow bool) {
	if l.pending == 0 && l.mux.config.Stall > 0 && l.err == nil {
		l.moves()
		l.timer.Reset(l.mux.config.Stall)
	}
	l.pending++
	if slow {
		l.slow++
	}
}

// answered is the opposite.
func (l *Lane) answered(slow bool) {
	l.pending--
	if slow {
		l.slow--
	}
	if l.pending == 0 && l.err == nil {
		l.timer.Stop()
	}
}

// look is called when the server may have stalled, and when a lane that has
// failed should have ended.
func (l *Lane) look() {
	m := l.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case l.gone:
		return
	case l.err != nil:
		m.abandon(l.conn)
		return
	case l.pending == 0:
		return
	}
	stall := m.config.Stall
	idle := time.Since(time.Unix(0, l.moved.Load()))
	switch {
	case idle < stall:
		l.timer.Reset(stall - idle)
	case l.slow > 0:
		// To copy or to hash a large file takes its time, and what comes behind
		// it waits. Is anybody there?
		m.ping(l.conn)
		l.timer.Reset(stall)
	default:
		l.fail(fmt.Errorf("%w for %v", ErrStalled, idle.Round(time.Second)))
	}
}

// ping asks whether a connection is alive, and gives it up if there is no
// answer in the time after which a server has stalled. The caller holds mu.
func (m *Mux) ping(conn *connection) {
	if conn.pinging {
		m.abandon(conn)
		return
	}
	conn.pinging = true
	go func() { // it ends with the connection
		err := conn.carrier.Ping()
		m.mu.Lock()
		defer m.mu.Unlock()
		conn.pinging = false
		if err != nil {
			m.abandon(conn)
		}
	}()
}

// abandon closes a connection under all of its lanes. The caller holds mu.
func (m *Mux) abandon(conn *connection) {
	conn.limit = 0
	go func() { _ = conn.carrier.Close() }()
	for _, l := range m.pool.lanes {
		if l != nil && l.conn == conn {
			l.fail(ErrStalled)
		}
	}
}

// A greeting is what a server says of itself.
type greeting struct {
	ext        wire.Extensions
	limits     wire.Limits
	prefetched *prefetched // nil if none was asked for
}

// greetID is the id of the request for limits, which is sent before a lane
// starts.
const greetID = 1

// handshake shakes hands. Unless careful, it asks for the server's limits in the
// same breath, and for a file if there is one to begin with: a server that does
// not know the question says so.
func (l *Lane) handshake(ctx context.Context, careful bool, first string) (greeting, error) {
	stop := context.AfterFunc(ctx, func() { _ = l.stream.Close() })
	g, err := l.exchangeGreetings(careful, first)
	if !stop() {
		err = context.Cause(ctx)
	}
	return g, err
}

func (l *Lane) exchangeGreetings(careful bool, first string) (g greeting, err error) {
	hello := wire.AppendInit(nil, wire.ProtocolVersion)
	if !careful {
		hello = wire.AppendLimits(hello, greetID)
		if first != "" {
			g.prefetched = &prefetched{name: first, lane: l}
			hello = g.prefetched.ask(hello)
		}
	}
	if err := l.send(hello); err != nil {
		return g, lost("write", err)
	}
	p, err := l.reply()
	if err != nil {
		return g, err
	}
	if p.Type != wire.TypeVersion {
		return g, fmt.Errorf("%w: %v in answer to INIT", ErrProtocol, p.Type)
	}
	if p.Version < wire.ProtocolVersion {
		return g, fmt.Errorf("server speaks version %d of SFTP, and %d is spoken here", p.Version, wire.ProtocolVersion)
	}
	g.ext = p.Pairs.Known()
	if careful {
		if !g.ext.Has(wire.ExtLimits) {
			return g, nil
		}
		if err := l.send(wire.AppendLimits(nil, greetID)); err != nil {
			return g, lost("write", err)
		}
	}
	if g.prefetched != nil {
		return g, l.answers(&g)
	}
	if p, err = l.reply(); err != nil {
		return g, err
	}
	return g, g.takeLimits(&p)
}

// takeLimits takes the answer to the request for limits.
func (g *greeting) takeLimits(p *wire.Reply) (err error) {
	switch {
	case p.ID != greetID || p.Type != wire.TypeStatus && p.Type != wire.TypeExtendedReply:
		return fmt.Errorf("%w: %v with id %d in answer to the question for limits", ErrProtocol, p.Type, p.ID)
	case p.Type == wire.TypeExtendedReply:
		g.limits, err = p.Limits()
	}
	return Violation(err)
}

// reply reads a packet, whatever it is.
func (l *Lane) reply() (wire.Reply, error) {
	h, err := l.header()
	if err != nil {
		return wire.Reply{}, err
	}
	if err := l.rest(h); err != nil {
		return wire.Reply{}, err
	}
	p, err := wire.ParseReply(l.body)
	return p, Violation(err)
}

// header reads the beginning of a packet.
func (l *Lane) header() (wire.Header, error) {
	if _, err := io.ReadFull(l.in, l.head[:wire.HeaderSize]); err != nil {
		return wire.Header{}, lost("read", err)
	}
	h, err := wire.ParseHeader(l.head[:wire.HeaderSize])
	return h, Violation(err)
}

// rest reads the rest of a packet behind its header, so that body is all of it.
func (l *Lane) rest(h wire.Header) error {
	if cap(l.body) < h.Size {
		l.body = make([]byte, h.Size)
	}
	l.body = l.body[:h.Size]
	n := copy(l.body, l.head[:wire.HeaderSize])
	if _, err := io.ReadFull(l.in, l.body[n:]); err != nil {
		return lost("read", err)
	}
	return nil
}
