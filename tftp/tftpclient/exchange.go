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
	"github.com/haul-project/haul/tftp/internal/protocol"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// An exchange is one transfer of a client, with its own socket.
type exchange struct {
	conn   packetio.Socket
	server netip.AddrPort // destination of the request
	peer   netip.AddrPort // the server's address and port, once it has answered (RFC 1350 §4)
	in     []udp.Message
	out    *packetio.Batch
	sent   func() // called after the packets that are due were sent; may be nil
	result Result
	began  time.Time

	strays     int                     // how many datagrams from other addresses or ports than the server's were answered
	noReorder  bool                    // Client.NoReorder
	progress   func(bytes, size int64) // Client.Progress
	progressed time.Time               // last call of progress
	dally      *protocol.Receiver      // the receiver of a finished read, which still answers repeats
}

const (
	maxClientMessages = 16 // messages received or sent in one call
	lockstepMessages  = 2  // messages received in one call by a transfer without a window
	maxClientBatch    = 256 << 10

	// progressEvery is the shortest time between two calls of Progress.
	progressEvery = 50 * time.Millisecond

	// maxClientStrays is how many datagrams from strangers one transfer answers. A stranger is any
	// address and port other than the server's.
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

// run exchanges packets until the machine is done. It passes each datagram from the peer to handle.
// The function fill, if not nil, adds the blocks that are due to the send batch.
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
			x.out.AddReply(now, x.to(), netip.Addr{}, m) // if fill has failed, there is an ERROR to send
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
		// A deadline counts only when all packets that arrived before it are handled. Otherwise a
		// delayed process would repeat packets that are already answered. If the deadline had
		// passed before this read, the machine expires now, even if more packets keep arriving.
		heard = n > 0 && !late
	}
}

// to returns the destination of packets: the port from which the server has answered, or before
// that the server's port for requests.
func (x *exchange) to() netip.AddrPort {
	if x.peer.IsValid() {
		return x.peer
	}
	return x.server
}

// refused returns the error with which the transfer ends because of err, an error from the socket.
// It returns nil if the transfer continues.
func (x *exchange) refused(err error, heard bool) error {
	var op *net.OpError
	if !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, &op) {
		return err
	}
	from, ok := op.Addr.(*net.UDPAddr)
	switch {
	case !ok || from.AddrPort().Port() != x.to().Port():
		return nil // the error is about a packet to a stranger
	case heard:
		return fmt.Errorf("server went away: %w", syscall.ECONNREFUSED)
	}
	return fmt.Errorf("no TFTP server listens there: %w", syscall.ECONNREFUSED)
}

// receive passes a message to the machine if it comes from the server's address and port.
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

// stray answers a stranger with an ERROR (RFC 1350 §4). It does not disturb the transfer itself.
func (x *exchange) stray(m *udp.Message) {
	if transfer.OpcodeOf(m.Data) == transfer.ErrorPacket || x.strays >= maxClientStrays {
		return
	}
	x.strays++
	// An error from sending to a stranger must not affect the transfer.
	err := x.out.Err
	x.out.AddError(m.Peer, m.Local, transfer.UnknownID, "unknown transfer ID")
	x.out.Flush()
	x.out.Err = err
}

// report records the number of bytes moved, and calls Progress, at most once per progressEvery. If
// last is true, it always calls Progress.
func (x *exchange) report(now time.Time, bytes, size int64, last bool) {
	x.result.Bytes = bytes
	if x.progress == nil || !last && now.Sub(x.progressed) < progressEvery {
		return
	}
	x.progressed = now
	x.progress(bytes, size)
}

// A read has a buffer in memory for two windows. These values are its smallest and largest size in
// bytes.
const (
	clientRing    = 32 << 10
	maxClientRing = 64 << 20
)

// A download is a read under way.
type download struct {
	x      *exchange
	r      *protocol.Receiver
	create func(size int64) (store.Upload, error)
	buffer fileio.WriteBuffer
	upload store.Upload // nil until the server has agreed to send the file
	size   int64        // size as reported by the server; -1 if unknown
	mode   transfer.Mode
}

// get runs a read.
func (x *exchange) get(ctx context.Context, q transfer.Request, create func(int64) (store.Upload, error)) error {
	d := download{x: x, r: new(protocol.Receiver), create: create, size: -1, mode: q.Mode}
	defer func() {
		if d.upload != nil {
			_ = d.upload.Close() // discards the upload, unless it is committed
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

// handle handles a datagram and stores the new data in it.
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

// prepare creates the Upload as soon as the options are agreed on and the ACK that confirms them is
// sent. Creating it takes as long as a round trip on a LAN. If the ACK waited for that, the server
// would measure a longer round trip, and wait longer whenever a packet is lost.
func (d *download) prepare() {
	if d.r.Heard() {
		d.ready()
	}
}

// ready creates the Upload for the file unless it already exists. It reports whether there is one.
func (d *download) ready() bool {
	if d.upload != nil {
		return true
	}
	if done, _ := d.r.Done(); done {
		return false
	}
	return d.begin()
}

// begin creates the Upload for the file, and reports whether it succeeded.
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

// store adds a chunk to the buffer, and writes the buffer to the Upload once it is half full. The
// last chunk publishes the file.
func (d *download) store(c protocol.Chunk) error {
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

// abortStore ends the read because the file cannot be stored.
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
	s := new(protocol.Sender)
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

// A blockingReader reads blocks of a file, and waits for them if necessary.
type blockingReader struct {
	src     io.ReaderAt
	try     store.TryReader // src as a TryReader; nil if src is not one
	scratch []byte
}

// TryReadAt fills bufs with data from off on, and waits for the data if necessary.
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

// errProbed ends a request that was sent only to learn the size.
var errProbed = errors.New("size is known")

// size requests a file with tsize, and ends the transfer when the answer arrives.
func (x *exchange) size(ctx context.Context, q transfer.Request) (int64, error) {
	r := new(protocol.Receiver)
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
			size = r.Received() // the whole file is in this block, so its size is known too
		case len(c.Data) == 0:
			return // an OACK without tsize, for example for an empty file: the first block may show the size
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

// dallyOn continues to answer repeats of the last block for a while.
func (x *exchange) dallyOn() {
	defer x.close()
	for {
		deadline := x.dally.Deadline()
		if deadline.IsZero() {
			return
		}
		n, err := x.conn.Read(x.in, deadline)
		if err != nil {
			return // for example, the port is closed because the server has ended the transfer
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

// A Result describes the course of a transfer, even if the transfer failed.
type Result struct {
	Peer     netip.AddrPort   // the server's address and port for this transfer
	Options  transfer.Options // the agreed options
	Bytes    int64
	Duration time.Duration
	First    time.Duration // time from the request to the first answer; 0 if there was no answer
	transfer.Stats
}

// unreachable reports whether err says that the address cannot be reached, so that another address
// of the host is worth a try.
func unreachable(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENETUNREACH) ||
		errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.EADDRNOTAVAIL) ||
		errors.Is(err, syscall.EAFNOSUPPORT)
}

// ErrNoSize says that a server does not report the size of a file, because it ignores the option
// tsize.
var ErrNoSize = errors.New("server does not report the size")
