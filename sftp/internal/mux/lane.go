package mux

import (
	"bufio"
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

	// maxSpare is the most bytes of a buffer for requests that is kept.
	maxSpare = 64 << 10

	// longAnswer is how long a server may be silent over a request that takes long, such as
	// to hash a file, where it cannot be asked whether it is alive.
	longAnswer = time.Hour

	// laneEnd is how long a lane that has failed may take to end before its
	// connection is closed.
	laneEnd = 5 * time.Second
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
	late   int                       // reader: see isLate
	moved  atomic.Int64              // when a byte last went either way, in nanoseconds since 1970

	// All of mux.mu:
	n       int    // its number
	ready   bool   // it has taken the handshake, and has goroutines
	guess   *guess // a file that was asked for under a handle not known yet
	era     int    // of losses, when it was opened
	due     sync.Cond
	text    []byte // requests to be sent
	spare   []byte
	sending bool            // what was in text
	bulk    Queue[outgoing] // packets of data, and what must not overtake them; behind text
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

// noMemory is the Memory of a packet that is not on loan.
type noMemory struct{}

func (noMemory) Written() {}

// An outgoing is a packet that is to be sent, of data or behind data.
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
	l.mux.mu.Lock()
	defer l.mux.mu.Unlock()
	l.fail(err)
	if l.running--; l.running == 0 {
		l.timer.Stop()
		l.mux.ended(l)
	}
}

// fail ends a lane. The caller holds mux.mu.
func (l *Lane) fail(err error) {
	if l.err != nil {
		return
	}
	l.err, l.mux.last = err, err
	l.due.Signal()
	// Closing a channel may block as long as the connection does; if it takes too
	// long, the connection is closed.
	l.mux.work.Go(func() { _ = l.stream.Close() })
	l.timer.Reset(laneEnd)
}

// write sends what there is to send.
func (l *Lane) write() error {
	l.mux.mu.Lock()
	defer l.mux.mu.Unlock()
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
			l.mux.mu.Unlock()
			err = l.send(out)
			l.mux.mu.Lock()
			l.sending = false
			l.mux.wakeDrain()
			if cap(out) <= maxSpare {
				l.spare = out[:0]
			}
		} else {
			o, _ := l.bulk.Pop()
			l.mux.mu.Unlock()
			err = l.send(o.b)
			l.mux.mu.Lock()
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
	if stall := l.mux.config.Stall; l.pending == 0 && stall > 0 && l.err == nil {
		l.moves()
		l.timer.Reset(stall)
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
	l.mux.mu.Lock()
	defer l.mux.mu.Unlock()
	switch {
	case l.gone:
		return
	case l.err != nil:
		l.conn.abandon()
		return
	case l.pending == 0:
		return
	}
	stall, idle := l.mux.config.Stall, time.Since(time.Unix(0, l.moved.Load()))
	switch {
	case idle < stall:
		l.timer.Reset(stall - idle)
	case l.slow > 0 && (!l.conn.isStream() || idle < longAnswer):
		// To copy or to hash a large file takes long, and requests behind it wait.
		// Check whether the connection is alive.
		l.conn.ping(&l.mux.mu)
		l.timer.Reset(stall)
	default:
		l.fail(fmt.Errorf("%w for %v", ErrStalled, idle.Round(time.Second)))
	}
}

// read takes replies until one cannot be read, or makes no sense.
func (l *Lane) read() error {
	for {
		h, err := l.header()
		if err != nil {
			return err
		}
		if h.Type == wire.TypeData {
			err = l.mux.takeData(l)
		} else if err = l.rest(h); err == nil {
			err = l.mux.takeReply(l)
		}
		if err != nil {
			return err
		}
	}
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

// The sizes in which memory for data is lent out, in bytes: a small file, the
// request that every server takes, and the largest one. Each has room for a
// header in front.
var bufferSizes = [...]int{4<<10 + WriteHead, wire.SureData + WriteHead, wire.MaxPacket + WriteHead}

// WriteHead is room for the header of a WRITE with the longest handle.
const WriteHead = wire.HeaderSize + 4 + wire.MaxHandle + 8 + 4

var bufferPools [len(bufferSizes)]sync.Pool

// A Buffer is memory on loan.
type Buffer struct {
	Bytes []byte
	size  int // in bufferSizes
}

// NewBuffer returns a buffer of n bytes or more, at most the largest size.
func NewBuffer(n int) *Buffer {
	size := 0
	for bufferSizes[size] < n {
		size++
	}
	if b, ok := bufferPools[size].Get().(*Buffer); ok {
		return b
	}
	return &Buffer{make([]byte, bufferSizes[size]), size}
}

// Written gives it back when the packet in it has been sent.
func (b *Buffer) Written() { b.Free() }

// Free gives it back. It must not be used any more.
func (b *Buffer) Free() { bufferPools[b.size].Put(b) }
