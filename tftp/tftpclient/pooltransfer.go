package tftpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/haul-project/haul/internal/poolhooks"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/internal/protocol"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// A poolTransfer is one transfer of a pool. It is reused for other transfers, with all its memory.
// Its loop owns it; while a job is out (job is not NoJob), a worker owns fetch and the poolFile.
type poolTransfer struct {
	loop     *poolLoop
	receiver protocol.Receiver
	sender   protocol.Sender
	timer    int // position in the heap, from 1; 0 for none
	buffer   fileio.WriteBuffer
	fetch    fileio.FetchBuffer
	poolState
}

// A poolState is the part of a poolTransfer that is cleared for each new transfer.
type poolState struct {
	request *poolRequest
	member  *udp.Member    // the socket through which it sends; nil if it has no socket
	server  netip.AddrPort // destination of the request
	peer    netip.AddrPort // the server's address and port, once it has answered
	machine clientMachine  // the receiver or the sender
	stop    func() bool    // stops waiting for the end of the context; nil if nothing waits for it

	requested   time.Time // when the request was first sent; if zero, the machine is not in use
	answered    bool      // the server has sent a packet
	lastSent    time.Time // when a packet was last sent
	first       time.Duration
	limit       time.Time // when the transfer must be over; zero for never
	hasMinTimer bool      // Pool.MinTimer applies
	counted     int64     // bytes of a write that PoolStats already counts
	serverSize  int64     // the size of a read as reported by the server; -1 if unknown
	opened      bool      // the Upload of a read was created, or is being created
	last        bool      // the last block has arrived
	ended       bool      // the machine is done
	dallying    bool      // the transfer is done and still answers repeats
	reported    bool      // the done function was called, while the transfer dallies
	err         error     // the error with which it ended
	result      Result
	job         fileio.Job
	poolFile
}

// A poolTransferUse identifies one use of a transfer, because transfers are reused.
type poolTransferUse struct {
	transfer *poolTransfer
	request  *poolRequest
}

// dallies reports whether the transfer dallies, and is still in this use.
func (u poolTransferUse) dallies() bool {
	return u.transfer.dallying && u.transfer.request == u.request
}

// A poolFile is the file of a transfer.
type poolFile struct {
	upload store.Upload
	reader io.ReaderAt // source of a write, or its translation to netascii
	try    store.TryReader
	size   int64
	jobErr error
}

// begin begins the requested transfer on its socket.
func (x *poolTransfer) begin(now time.Time) {
	q, lp := x.request, x.loop
	x.machine = &x.receiver
	if q.write {
		x.machine = &x.sender
		x.reader, x.size = q.src, q.size
	}
	x.serverSize = -1
	if q.began.IsZero() {
		q.began = now
	}
	if lp.pool.limit > 0 {
		x.limit = now.Add(lp.pool.limit)
	}
	if err := q.ctx.Err(); err != nil {
		lp.end(now, x, err)
		return
	}
	if q.ctx.Done() != nil {
		x.stop = context.AfterFunc(q.ctx, func() { lp.inbox.cancel(x, q) })
	}
	if q.write && q.target.Mode == transfer.Netascii {
		x.submit(fileio.ScanJob)
		return
	}
	x.sendRequest(now)
}

// sendRequest sends the request.
func (x *poolTransfer) sendRequest(now time.Time) {
	q, p := x.request, x.loop.pool
	r := transfer.Request{Write: q.write, Name: q.target.Name, Mode: q.target.Mode}
	if !q.plain {
		var err error
		if r.Offer, err = p.offer(q.addr); err != nil {
			x.loop.end(now, x, err)
			return
		}
	}
	// MinTimer does not apply to a Sender with a window, because its timer also says when to resume
	// sending.
	x.hasMinTimer = p.minTimer > 0 && (!q.write || r.Offer.Window <= 1)
	x.requested = now
	if q.write {
		if r.Offer.HasSize {
			r.Offer.Size = x.size
		}
		x.try, _ = store.As[store.TryReader](x.reader)
		x.sender.Request(now, r, x.size)
	} else {
		x.receiver.Request(now, r)
		if p.client.NoReorder {
			x.receiver.DropOutOfOrder()
		}
	}
	x.loop.advance(now, x)
}

// clear prepares x for another transfer.
func (x *poolTransfer) clear() {
	x.poolState, x.buffer, x.fetch = poolState{}, x.buffer.Spare(clientRing), x.fetch.Spare(fileio.MaxFetch)
}

// to returns the destination of packets.
func (x *poolTransfer) to() netip.AddrPort {
	if x.peer.IsValid() {
		return x.peer
	}
	return x.server
}

// handle takes a datagram from the server.
func (x *poolTransfer) handle(now time.Time, b []byte) {
	if !x.answered {
		x.answered, x.first = true, now.Sub(x.requested)
		x.loop.answered.Add(1)
	}
	if x.request.write {
		x.sender.Handle(now, b)
		if acked := x.sender.Acked(); acked != x.counted {
			x.loop.bytes.Add(acked - x.counted)
			x.counted = acked
		}
		return
	}
	c := x.receiver.Handle(now, b)
	if x.ended {
		return
	}
	if x.receiver.Heard() && x.serverSize < 0 {
		if o := x.receiver.Agreed(); o.HasSize {
			x.serverSize = o.Size
		}
	}
	x.prepare()
	if len(c.Data) == 0 && !c.Last {
		return
	}
	x.loop.bytes.Add(int64(len(c.Data)))
	if err := x.store(now, c); err != nil {
		x.abortStore(err)
		if errors.Is(err, poolhooks.ErrVanish) {
			x.machine.AppendReply(now, nil) // drops the ERROR without sending it
		}
	}
}

// store stores new data of the file.
func (x *poolTransfer) store(now time.Time, c protocol.Chunk) error {
	if err := fileio.CheckAnnounced(x.receiver.Agreed(), x.request.target.Mode, c, x.receiver.Received()); err != nil {
		return err
	}
	if w := x.request.blocks; w != nil {
		size := int64(-1)
		if c.Last {
			size = x.receiver.Received()
		}
		if err := w.WriteBlock(c.Offset, c.Data, c.Last, size); err != nil {
			return err
		}
		x.receiver.Stored(now)
		return nil
	}
	if err := x.buffer.Put(c, x.receiver.Received()); err != nil {
		return err
	}
	x.last = x.last || c.Last
	x.acknowledge(now)
	return nil
}

// abortStore ends a read because the file cannot be stored.
func (x *poolTransfer) abortStore(err error) {
	code := transfer.NotDefined
	if errors.Is(err, store.ErrNoSpace) {
		code = transfer.DiskFull
	}
	x.machine.Abort(code, "client cannot keep the file", err)
}

// fail ends the transfer without a packet to the server, which cannot be reached.
func (x *poolTransfer) fail(err error) { x.machine.Abort(transfer.NotDefined, "client failed", err) }

// abort ends the transfer and sends the server an ERROR.
func (x *poolTransfer) abort(now time.Time, msg string, err error) {
	if x.requested.IsZero() {
		x.loop.end(now, x, err)
		return
	}
	x.machine.Abort(transfer.NotDefined, msg, err)
}

// send sends the packets that are due.
func (x *poolTransfer) send(now time.Time) {
	lp := x.loop
	lp.conn.member = x.member
	lp.out.AddReply(now, x.to(), netip.Addr{}, x.machine)
	if x.request.write {
		x.fill(now)
		lp.out.AddReply(now, x.to(), netip.Addr{}, x.machine) // if filling has failed, there is an ERROR to send
	}
	if !lp.out.IsEmpty() {
		x.lastSent = now
		lp.out.Flush()
	}
	if err := lp.out.Err; err != nil {
		lp.out.Err = nil
		if err = sendError(err, x.machine.Heard()); err != nil {
			x.fail(err)
		}
	}
}

// fill sends the blocks that are due, until it needs data that is not available without waiting.
func (x *poolTransfer) fill(now time.Time) {
	for x.job == fileio.NoJob {
		run := x.sender.Due(now)
		if run.Blocks == 0 {
			return
		}
		ok, err := x.loop.out.AddData(now, x.to(), netip.Addr{}, &x.sender, run, x)
		switch {
		case ok:
		case errors.Is(err, store.ErrWouldBlock), errors.Is(err, errors.ErrUnsupported):
			x.fetch.Aim(run, x.sender.BlockSize(), fileio.MaxFetch)
			x.submit(fileio.FetchJob)
		default:
			if err == nil || err == io.EOF {
				err = fileio.ErrChanged
			}
			x.abort(now, "client cannot read the file", err)
			return
		}
	}
}

// TryReadAt returns fetched data if it can. Otherwise it reads data that the source has in memory.
func (x *poolTransfer) TryReadAt(bufs [][]byte, off int64) (int, error) {
	if n := x.fetch.CopyTo(bufs, off); n > 0 {
		return n, nil
	}
	if x.try == nil {
		return 0, store.ErrWouldBlock
	}
	return fileio.TryBlocks(x.try, bufs, off)
}

// deadline returns when expire is due, or the zero time for never.
func (x *poolTransfer) deadline() time.Time {
	d := x.machine.Deadline()
	if x.ended {
		return d
	}
	if x.job == fileio.FetchJob {
		d = time.Time{} // we wait for the worker, not for the server
	}
	if x.hasMinTimer && !d.IsZero() {
		if least := x.lastSent.Add(x.loop.pool.minTimer); d.Before(least) {
			d = least
		}
	}
	if !x.limit.IsZero() && (d.IsZero() || x.limit.Before(d)) {
		return x.limit
	}
	return d
}

// expire does what is due once a deadline of the transfer has passed.
func (x *poolTransfer) expire(now time.Time) {
	if !x.ended && !x.limit.IsZero() && !now.Before(x.limit) {
		x.abort(now, "transfer takes too long", fmt.Errorf("not done in %v", x.loop.pool.limit))
		return
	}
	x.machine.Expire(now)
}

// noteResult records the result of the transfer.
func (x *poolTransfer) noteResult(now time.Time) {
	if x.requested.IsZero() {
		return
	}
	x.result = Result{
		Peer: x.peer, Options: x.machine.Agreed(), Stats: x.machine.Stats(), First: x.first,
		Duration: now.Sub(x.request.began),
	}
	if x.request.write {
		x.result.Bytes = x.sender.Acked()
	} else {
		x.result.Bytes = x.receiver.Received()
	}
}

// nextAttempt reports whether to send the request again, and changes it accordingly: without
// options if the server refuses them (RFC 2347 §3), or to another address of the host.
func (x *poolTransfer) nextAttempt() bool {
	q := x.request
	if x.err == nil || q.ctx.Err() != nil {
		return false
	}
	fault, ok := errors.AsType[*transfer.Error](x.err)
	if ok && fault.Remote && fault.Code == transfer.OptionsRefused && x.result.Bytes == 0 && !q.plain && x.loop.pool.offered == nil {
		q.plain = true
		return true
	}
	silent := errors.Is(x.err, transfer.ErrSilent) && !x.peer.IsValid()
	if len(q.more) == 0 || !silent && !unreachable(x.err) {
		return false
	}
	q.addr, q.more, q.plain = q.more[0], q.more[1:], x.loop.pool.client.NoOptions
	return true
}
