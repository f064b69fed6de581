package tftpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/internal/poolhooks"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/internal/packetio"
	"github.com/haul-project/haul/tftp/internal/protocol"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// A poolTransfer is one transfer of a pool. It is reused for other transfers, with all its memory.
// Its loop owns it. While a worker does a job for it (job is not NoJob), the worker owns the file,
// except that the loop adds blocks to the file's buffer.
type poolTransfer struct {
	loop     *loopCommon
	receiver protocol.Receiver
	sender   protocol.Sender
	timer    int // position in the heap of the loop's timers, from 1; 0 if the transfer has no timer
	file     poolFile
	poolState
}

// A poolState is the part of a poolTransfer that is cleared for each new transfer.
type poolState struct {
	request *poolRequest
	member  *udp.Member    // the socket through which the transfer sends; nil if it has no socket
	server  netip.AddrPort // destination of the request
	peer    netip.AddrPort // the server's address and port, once it has answered
	machine clientMachine  // the receiver or the sender
	// stop cancels the context.AfterFunc that ends the transfer with its context; nil if there is
	// no such function.
	stop func() bool

	requested   time.Time     // when the machine was started; zero before
	answered    bool          // the server has sent a packet
	lastSent    time.Time     // when a packet was last sent
	first       time.Duration // time from the request to the first answer
	limit       time.Time     // when the transfer must be over; zero for never
	hasMinTimer bool          // Pool.MinTimer applies
	counted     int64         // bytes of a write that PoolStats already counts
	serverSize  int64         // the size of a read, as reported by the server; -1 if unknown
	opened      bool          // the Upload of a read was created, or is being created
	last        bool          // the last block has arrived
	ended       bool          // the transfer is over, but a worker may still use its files
	dallying    bool          // the transfer is done and still answers repeats
	reported    bool          // the done function was called, although the transfer still dallies
	err         error         // why the transfer has failed, or must fail before its request is sent
	result      Result
	job         fileio.Job
	jobErr      error // error of the latest job; the worker sets it
}

// A poolTransferUse identifies one use of a transfer, because transfers are reused.
type poolTransferUse struct {
	transfer *poolTransfer
	request  *poolRequest
}

// dallies reports whether the transfer dallies, and was not reused since.
func (u poolTransferUse) dallies() bool {
	return u.transfer.dallying && u.transfer.request == u.request
}

// A loopCommon holds what the transfers of a loop have in common.
type loopCommon struct {
	pool     *poolCommon
	out      *packetio.Batch
	conn     memberConn // the connection through which out sends
	events   transferEvents
	answered atomic.Int64 // transfers that a server has answered
	bytes    atomic.Int64 // bytes of file content moved, without repeats
}

// A transferEvents passes events of a transfer from other goroutines to its loop.
type transferEvents interface {
	workDone(x *poolTransfer)               // a worker hands x back
	cancel(x *poolTransfer, q *poolRequest) // the context of q has ended; x is, or was, the transfer of q
}

// begin begins the transfer, which has a request and a socket.
func (x *poolTransfer) begin(now time.Time) {
	q := x.request
	x.machine = &x.receiver
	if q.write {
		x.machine = &x.sender
		x.file.reader, x.file.size = q.src, q.size
	}
	x.serverSize = -1
	if q.began.IsZero() {
		q.began = now
	}
	if limit := x.loop.pool.limit; limit > 0 {
		x.limit = now.Add(limit)
	}
	if err := q.ctx.Err(); err != nil {
		x.err = err
		return
	}
	if q.ctx.Done() != nil {
		x.stop = context.AfterFunc(q.ctx, func() { x.loop.events.cancel(x, q) })
	}
	if q.write && q.target.Mode == transfer.Netascii {
		x.submit(fileio.ScanJob)
		return
	}
	x.startMachine(now)
}

// startMachine starts the machine, whose first packet is the request.
func (x *poolTransfer) startMachine(now time.Time) {
	q, p := x.request, x.loop.pool
	r := transfer.Request{Write: q.write, Name: q.target.Name, Mode: q.target.Mode}
	if !q.plain {
		if r.Offer, x.err = p.offer(q.addr); x.err != nil {
			return
		}
	}
	// MinTimer does not apply to a Sender with a window, because its timer also says when to resume
	// sending.
	x.hasMinTimer = p.minTimer > 0 && (!q.write || r.Offer.Window <= 1)
	x.requested = now
	if q.write {
		if r.Offer.HasSize {
			r.Offer.Size = x.file.size
		}
		x.file.try, _ = store.As[store.TryReader](x.file.reader)
		x.sender.Request(now, r, x.file.size)
	} else {
		x.receiver.Request(now, r)
		if p.client.NoReorder {
			x.receiver.DropOutOfOrder()
		}
	}
}

// clear prepares x for another transfer.
func (x *poolTransfer) clear() {
	x.poolState = poolState{}
	x.file.clear()
}

// to returns the destination of packets.
func (x *poolTransfer) to() netip.AddrPort {
	if x.peer.IsValid() {
		return x.peer
	}
	return x.server
}

// handle handles a datagram from the server.
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

// prepare creates the Upload of a download, once the server has agreed to send the file.
func (x *poolTransfer) prepare() {
	if done, _ := x.receiver.Done(); done || x.opened || x.request.blocks != nil || !x.receiver.Heard() {
		return
	}
	x.opened = true
	window := max(1, x.receiver.Agreed().Window) * x.receiver.BlockSize()
	x.file.buffer.Reset(max(2*window, clientRing), 0, x.request.target.Mode)
	x.submit(fileio.OpenJob)
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
	if err := x.file.buffer.Put(c, x.receiver.Received()); err != nil {
		return err
	}
	x.last = x.last || c.Last
	x.acknowledge(now)
	return nil
}

// acknowledge allows the ACK that is due if the buffer has room for another window. It has a worker
// write the buffered data if the buffer is half full, or if the last block has arrived.
func (x *poolTransfer) acknowledge(now time.Time) {
	window := int64(max(1, x.receiver.Agreed().Window)) * int64(x.receiver.BlockSize())
	if !x.last && x.file.buffer.Fits(window) {
		x.receiver.Stored(now)
	}
	if x.job != fileio.NoJob || x.file.upload == nil {
		return
	}
	switch {
	case x.last:
		x.file.buffer.Mark()
		x.submit(fileio.CommitJob)
	case x.file.buffer.IsHalfFull():
		x.file.buffer.Mark()
		x.submit(fileio.FlushJob)
	}
}

// submit passes a job to a worker. OpenJob creates the Upload of a download, and CloseJob discards a
// download that failed.
func (x *poolTransfer) submit(what fileio.Job) {
	x.job = what
	x.loop.pool.workers.add(x)
}

// Work does the job. Workers call it.
func (x *poolTransfer) Work() {
	x.jobErr = nil
	defer func() {
		if p := recover(); p != nil {
			x.jobErr = fileio.Crashed(p)
		}
	}()
	if x.job == fileio.OpenJob {
		x.file.upload, x.jobErr = x.request.create(x.serverSize)
		return
	}
	x.jobErr = x.file.do(x.job)
}

// HandBack passes x back to its loop. Workers call it.
func (x *poolTransfer) HandBack() { x.loop.events.workDone(x) }

// worked handles the result of a job.
func (x *poolTransfer) worked(now time.Time, what fileio.Job) {
	switch {
	case x.jobErr != nil && x.request.write:
		x.abort("client cannot read the file", x.jobErr)
	case x.jobErr != nil:
		x.abortStore(x.jobErr)
	case what == fileio.ScanJob:
		x.startMachine(now)
	case what == fileio.OpenJob:
		x.acknowledge(now)
	case what == fileio.FlushJob:
		x.file.buffer.Free()
		x.acknowledge(now)
	case what == fileio.CommitJob:
		x.receiver.Stored(now)
	}
}

// abortStore ends a read because the file cannot be stored.
func (x *poolTransfer) abortStore(err error) {
	code := transfer.NotDefined
	if errors.Is(err, store.ErrNoSpace) {
		code = transfer.DiskFull
	}
	x.machine.Abort(code, "client cannot keep the file", err)
}

// fail ends the transfer because of an error from its socket, such as a refusal.
func (x *poolTransfer) fail(err error) { x.machine.Abort(transfer.NotDefined, "client failed", err) }

// abort makes the next call of advance end the transfer, so every caller has to call advance. If
// the request was sent, advance sends the server an ERROR.
func (x *poolTransfer) abort(msg string, err error) {
	if x.requested.IsZero() {
		x.err = err
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
		lp.out.AddReply(now, x.to(), netip.Addr{}, x.machine) // if fill has failed, there is an ERROR to send
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
		ok, err := x.loop.out.AddData(now, x.to(), netip.Addr{}, &x.sender, run, &x.file)
		switch {
		case ok:
		case errors.Is(err, store.ErrWouldBlock), errors.Is(err, errors.ErrUnsupported):
			x.file.fetch.Aim(run, x.sender.BlockSize(), fileio.MaxFetch)
			x.submit(fileio.FetchJob)
		default:
			if err == nil || err == io.EOF {
				err = fileio.ErrChanged
			}
			x.abort("client cannot read the file", err)
			return
		}
	}
}

// deadline returns when expire must be called, or the zero time for never.
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

// expire handles a deadline that has passed: the time limit of the transfer, or the next timer of
// the machine.
func (x *poolTransfer) expire(now time.Time) {
	if !x.ended && !x.limit.IsZero() && !now.Before(x.limit) {
		x.abort("transfer takes too long", fmt.Errorf("not done in %v", x.loop.pool.limit))
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

// nextAttempt reports whether to send the request again, and changes the request accordingly:
// without options if the server refuses them (RFC 2347 §3), or to another address of the host.
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
