package tftpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/internal/packetio"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// An exchange is one transfer of a client, with a socket of its own.
type exchange struct {
	conn   packetio.Socket
	server netip.AddrPort // where the request goes to
	peer   netip.AddrPort // the server's end, once it has answered (RFC 1350 §4)
	in     []udp.Message
	out    *packetio.Batch
	sent   func() // called when what was due has left; nil for nothing
	result Result
	began  time.Time

	strays     int                     // datagrams from others, answered
	noReorder  bool                    // Client.NoReorder
	progress   func(bytes, size int64) // Client.Progress
	progressed time.Time               // when it was called last
	dally      *transfer.Receiver      // a read that is done, and still answers
}

const (
	maxClientMessages = 16 // received, and sent, in one call
	lockstepMessages  = 2  // received where there is no window
	maxClientBatch    = 256 << 10

	// progressEvery is the least time between two calls of Progress.
	progressEvery = 50 * time.Millisecond

	// maxClientStrays is how many datagrams from strangers one transfer answers.
	maxClientStrays = 16
)

// buffers keeps receive buffers between transfers.
var buffers = sync.Pool{New: func() any { return new([1 << 16]byte) }}

func (x *exchange) close() {
	_ = x.conn.Close()
	for i := range x.in {
		buffers.Put((*[1 << 16]byte)(x.in[i].Data[:1<<16]))
	}
	x.in = nil
}

// A clientMachine is a Sender or a Receiver.
type clientMachine interface {
	packetio.Machine
	Heard() bool
	Expire(now time.Time)
	Abort(code transfer.ErrorCode, msg string, err error)
	Agreed() transfer.Options
	Stats() transfer.Stats
}

// run moves packets until the machine is done. handle takes a datagram of the
// peer's, fill puts into the send batch what is due besides replies.
func (x *exchange) run(ctx context.Context, m clientMachine, handle func(time.Time, []byte), fill func(time.Time)) error {
	stop := context.AfterFunc(ctx, x.conn.Wake)
	defer stop()
	defer func() {
		x.result.Options, x.result.Stats = m.Agreed(), m.Stats()
	}()
	for heard := false; ; {
		now := time.Now()
		if !heard {
			m.Expire(now)
		}
		if err := ctx.Err(); err != nil {
			m.Abort(transfer.NotDefined, "transfer was cancelled", err)
		}
		if x.out.AddReply(now, x.to(), netip.Addr{}, m); fill != nil {
			fill(now)
			x.out.AddReply(now, x.to(), netip.Addr{}, m) // filling may have failed
		}
		x.out.Flush()
		if done, err := m.Done(); done {
			return err
		}
		if err := x.out.Err; err != nil && !m.Heard() && unreachable(err) {
			return err
		}
		if x.sent != nil {
			x.sent()
			if done, _ := m.Done(); done {
				continue // there is an ERROR to send
			}
		}
		deadline := m.Deadline()
		late := !deadline.IsZero() && now.After(deadline)
		n, err := x.conn.Read(x.in, deadline)
		if err != nil {
			if err = x.refused(err, m.Heard()); err != nil {
				return err
			}
			continue
		}
		now = time.Now()
		for i := range x.in[:n] {
			x.receive(now, &x.in[i], m, handle)
		}
		// Packets that came before a deadline must be handled before the deadline
		// counts, or a delayed process would repeat packets that are answered already.
		// Once late it looks once more, and then expires even if more keeps coming.
		heard = n > 0 && !late
	}
}

// to returns where packets go to: the server's own port until it has answered
// from another.
func (x *exchange) to() netip.AddrPort {
	if x.peer.IsValid() {
		return x.peer
	}
	return x.server
}

// refused says what an error of the socket means for the transfer.
func (x *exchange) refused(err error, heard bool) error {
	var op *net.OpError
	if !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, &op) {
		return err
	}
	from, ok := op.Addr.(*net.UDPAddr)
	switch {
	case !ok || from.AddrPort().Port() != x.to().Port():
		return nil // about a packet to a stranger
	case heard:
		return fmt.Errorf("server went away: %w", syscall.ECONNREFUSED)
	}
	return fmt.Errorf("no TFTP server listens there: %w", syscall.ECONNREFUSED)
}

// receive hands a message to the machine if it comes from the server's end.
func (x *exchange) receive(now time.Time, msg *udp.Message, m clientMachine, handle func(time.Time, []byte)) {
	known := x.peer.IsValid()
	if known && msg.Peer != x.peer || !known && msg.Peer.Addr() != x.server.Addr() {
		x.stray(msg)
		return
	}
	if x.result.First == 0 {
		x.result.First = now.Sub(x.began)
	}
	for b := range msg.Datagrams() {
		handle(now, b)
	}
	if done, _ := m.Done(); !known && (m.Heard() || done) {
		x.peer = msg.Peer
	}
}

// stray answers a stranger that it has the wrong address (RFC 1350 §4). The
// transfer itself is not disturbed.
func (x *exchange) stray(m *udp.Message) {
	if transfer.OpcodeOf(m.Data) == transfer.ErrorPacket || x.strays >= maxClientStrays {
		return
	}
	x.strays++
	// Whether a stranger can be reached is not the transfer's business.
	err := x.out.Err
	x.out.AddError(m.Peer, m.Local, transfer.UnknownID, "unknown transfer ID")
	x.out.Flush()
	x.out.Err = err
}

// report calls Progress, not too often.
func (x *exchange) report(now time.Time, bytes, size int64, last bool) {
	x.result.Bytes = bytes
	if x.progress == nil || !last && now.Sub(x.progressed) < progressEvery {
		return
	}
	x.progressed = now
	x.progress(bytes, size)
}

// A read gathers two windows in memory before it writes, within these bounds
// in bytes.
const (
	clientRing    = 32 << 10
	maxClientRing = 64 << 20
)

// A download is a read under way.
type download struct {
	x      *exchange
	r      *transfer.Receiver
	create func(size int64) (store.Upload, error)
	buffer fileio.WriteBuffer
	upload store.Upload // nil until the server has agreed
	size   int64        // as the server says; -1 if it does not
	mode   transfer.Mode
}

// get runs a read.
func (x *exchange) get(ctx context.Context, q transfer.Request, create func(int64) (store.Upload, error)) error {
	d := download{x: x, r: new(transfer.Receiver), create: create, size: -1, mode: q.Mode}
	defer func() {
		if d.upload != nil {
			_ = d.upload.Close() // discards, unless committed
		}
	}()
	d.r.Request(time.Now(), q)
	if x.noReorder {
		d.r.DropOutOfOrder()
	}
	x.sent = d.prepare
	err := x.run(ctx, d.r, d.handle, nil)
	x.sent = nil
	x.report(time.Now(), d.r.Received(), d.size, true)
	if err == nil {
		x.dally = d.r
	}
	return err
}

// handle takes a datagram, and keeps what is new in it.
func (d *download) handle(now time.Time, b []byte) {
	c := d.r.Handle(now, b)
	if len(c.Data) == 0 && !c.Last {
		return
	}
	if !d.ready() {
		return
	}
	if err := d.store(c); err != nil {
		d.abortStore(err)
		return
	}
	d.r.Stored(now)
	d.x.report(now, d.r.Received(), d.size, false)
}

// prepare opens the place the file goes to as soon as the options are agreed on,
// after the ACK that says so: it takes as long as a round trip on a LAN, which the
// server would take for one, and wait as long whenever a packet is lost.
func (d *download) prepare() {
	if d.r.Heard() {
		d.ready()
	}
}

// ready reports whether there is a place for the file.
func (d *download) ready() bool {
	if d.upload != nil {
		return true
	}
	if done, _ := d.r.Done(); done {
		return false
	}
	return d.begin()
}

// begin opens the place the file goes to.
func (d *download) begin() bool {
	o := d.r.Agreed()
	if o.HasSize {
		d.size = o.Size
	}
	u, err := d.create(d.size)
	if err != nil {
		d.abortStore(err)
		return false
	}
	d.upload = u
	window := max(1, o.Window) * d.r.BlockSize()
	d.buffer.Reset(max(2*window, clientRing), 0, d.mode)
	return true
}

// store puts a chunk where it belongs; the last one publishes the file.
func (d *download) store(c transfer.Chunk) error {
	in := &d.buffer
	if err := fileio.CheckAnnounced(d.r.Agreed(), d.mode, c, d.r.Received()); err != nil {
		return err
	}
	if err := in.Put(c, d.r.Received()); err != nil {
		return err
	}
	switch {
	case c.Last:
		in.Mark()
		return in.Commit(d.upload)
	case in.IsHalfFull():
		in.Mark()
		if err := in.Flush(d.upload); err != nil {
			return err
		}
		in.Free()
	}
	return nil
}

// abortStore ends the read because the file cannot be kept.
func (d *download) abortStore(err error) {
	code := transfer.NotDefined
	if errors.Is(err, store.ErrNoSpace) {
		code = transfer.DiskFull
	}
	d.r.Abort(code, "client cannot keep the file", err)
}

// put runs a write.
func (x *exchange) put(ctx context.Context, q transfer.Request, src io.ReaderAt, size int64) error {
	if q.Mode == transfer.Netascii {
		text, err := fileio.OpenText(io.NewSectionReader(src, 0, size), nil)
		if err != nil {
			return err
		}
		src, size = text, text.Size()
	}
	if q.Offer.HasSize {
		q.Offer.Size = size
	}
	window := max(1, q.Offer.Window) * (max(transfer.DefaultBlockSize, q.Offer.BlockSize) + transfer.HeaderSize)
	x.out = packetio.NewBatch(x.conn, maxClientMessages, min(window, maxClientBatch))
	s := new(transfer.Sender)
	s.Request(time.Now(), q, size)
	from := &blockingReader{src: src}
	from.try, _ = store.As[store.TryReader](src)
	fill := func(now time.Time) {
		for {
			run := s.Due(now)
			if run.Blocks == 0 {
				return
			}
			if ok, err := x.out.AddData(now, x.to(), netip.Addr{}, s, run, from); !ok {
				if err == nil || err == io.EOF {
					err = fileio.ErrChanged
				}
				s.Abort(transfer.NotDefined, "client cannot read the file", err)
				return
			}
		}
	}
	handle := func(now time.Time, b []byte) {
		s.Handle(now, b)
		x.report(now, s.Acked(), size, false)
	}
	err := x.run(ctx, s, handle, fill)
	x.report(time.Now(), s.Acked(), size, true)
	return err
}

// A blockingReader reads blocks of a file, and waits for them if need be.
type blockingReader struct {
	src     io.ReaderAt
	try     store.TryReader // nil if src is none
	scratch []byte
}

// TryReadAt fills bufs.
func (r *blockingReader) TryReadAt(bufs [][]byte, off int64) (int, error) {
	if r.try != nil {
		n, err := r.try.TryReadAt(bufs, off)
		if n >= len(bufs[0]) {
			return n, nil
		}
		if n == 0 && errors.Is(err, errors.ErrUnsupported) {
			r.try = nil
		}
	}
	want := 0
	for _, b := range bufs {
		want += len(b)
	}
	if cap(r.scratch) < want {
		r.scratch = make([]byte, want)
	}
	n, err := r.src.ReadAt(r.scratch[:want], off)
	have := r.scratch[:n]
	for _, b := range bufs {
		have = have[copy(b, have):]
	}
	if n > 0 {
		err = nil
	}
	return n, err
}

// errProbed ends a request whose only purpose was the answer.
var errProbed = errors.New("size is known")

// size asks for a file with tsize, and ends the transfer with the answer.
func (x *exchange) size(ctx context.Context, q transfer.Request) (int64, error) {
	r := new(transfer.Receiver)
	r.Request(time.Now(), q)
	size := int64(-1)
	handle := func(now time.Time, b []byte) {
		c := r.Handle(now, b)
		if !r.Heard() {
			return
		}
		switch o := r.Agreed(); {
		case o.HasSize:
			size = o.Size
		case c.Last:
			size = r.Received() // no larger than a block: that answers it too
		case len(c.Data) == 0:
			return // an OACK without tsize, as for an empty file: the first block shows
		}
		r.Abort(transfer.NotDefined, "size is known", errProbed)
	}
	err := x.run(ctx, r, handle, nil)
	switch {
	case !errors.Is(err, errProbed):
		return -1, err
	case size < 0:
		return -1, ErrNoSize
	}
	return size, nil
}

// dallyOn answers repeats of the last block for a while.
func (x *exchange) dallyOn() {
	defer x.close()
	for {
		deadline := x.dally.Deadline()
		if deadline.IsZero() {
			return
		}
		n, err := x.conn.Read(x.in, deadline)
		if err != nil {
			return // refused: the server is content
		}
		now := time.Now()
		for i := range x.in[:n] {
			if m := &x.in[i]; m.Peer == x.peer {
				for b := range m.Datagrams() {
					x.dally.Handle(now, b)
				}
			}
		}
		x.dally.Expire(now)
		x.out.AddReply(now, x.peer, netip.Addr{}, x.dally)
		x.out.Flush()
	}
}

// A Result describes how a transfer went. It is meaningful after errors too.
type Result struct {
	Peer     netip.AddrPort   // the server's end of the transfer
	Options  transfer.Options // what was agreed on
	Bytes    int64
	Duration time.Duration
	First    time.Duration // from the request to the first answer; 0 if there was none
	transfer.Stats
}

// unreachable reports whether another address may do better.
func unreachable(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENETUNREACH) ||
		errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.EADDRNOTAVAIL) ||
		errors.Is(err, syscall.EAFNOSUPPORT)
}

// ErrNoSize says that a server does not report the size of a file: it ignores
// the option tsize.
var ErrNoSize = errors.New("server does not report the size")
