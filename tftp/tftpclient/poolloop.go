package tftpclient

import (
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/internal/packetio"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

const (
	poolBatchMessages = 4       // messages sent in one call
	poolBatchBytes    = 1 << 16 // bytes sent in one call
)

// A poolLoop runs its share of a pool's transfers. Its goroutine owns the fields, except the inbox
// and the atomic ones.
type poolLoop struct {
	loopCommon
	set       *udp.Set
	began     time.Time
	slots     int // how many transfers may be under way at once
	sockets   poolSockets
	free      []*poolTransfer
	timers    poolTimers
	active    int // transfers under way
	dallying  int
	lossy     bool // packets may be lost, so completed downloads dally
	errors    packetio.RateLimit
	expiredTo time.Duration // time since began up to which the timers were checked
	stopped   error         // why no transfer can continue; nil while transfers can continue
	inbox     poolInbox
	idled     atomic.Int64 // nanoseconds spent waiting for packets: see PoolStats.Idle
}

func newPoolLoop(p *poolCommon, slots, sockets int) (*poolLoop, error) {
	c := p.client
	bulk, longest := !c.NoOptions && c.Window != 1, c.BlockSize
	if o := p.offered; o != nil {
		bulk, longest = o.Window > 1, max(o.BlockSize, transfer.DefaultBlockSize)
	}
	datagram := 0
	if longest > 0 {
		datagram = max(shortestDatagram, longest+transfer.HeaderSize)
	}
	set, err := udp.NewSet(udp.SetConfig{Bulk: bulk, Datagram: datagram})
	if err != nil {
		return nil, err
	}
	lp := &poolLoop{
		loopCommon: loopCommon{pool: p}, set: set, began: time.Now(), slots: slots,
		lossy: !p.hooks.NoDally || p.hooks.Lose != nil,
	}
	lp.inbox.set, lp.inbox.awake = set, true
	lp.events = &lp.inbox
	lp.sockets = newPoolSockets(socketSettings{
		set: set, private: p.private, manyPerServer: p.manyPerServer, stopDallying: lp.stopDallying,
	}, sockets)
	lp.conn.settings = &p.poolSettings
	lp.out = packetio.NewBatch(&lp.conn, poolBatchMessages, poolBatchBytes)
	return lp, nil
}

// shortestDatagram is the smallest size of a receive buffer, in bytes. It has room for an OACK or
// an ERROR, which may answer any request.
const shortestDatagram = 1024

// take returns a transfer ready for use.
func (lp *poolLoop) take() *poolTransfer {
	if n := len(lp.free); n > 0 {
		x := lp.free[n-1]
		lp.free = lp.free[:n-1]
		return x
	}
	return &poolTransfer{loop: &lp.loopCommon}
}

// advance sends the packets that are due for a transfer, and ends it if it is done.
func (lp *poolLoop) advance(now time.Time, x *poolTransfer) {
	if x.requested.IsZero() {
		if x.err != nil && !x.ended {
			lp.end(now, x, x.err)
		}
		return
	}
	if x.member != nil {
		x.send(now)
	}
	if done, err := x.machine.Done(); done && !x.ended {
		lp.end(now, x, err)
	}
	if x.member == nil {
		return
	}
	deadline := x.deadline()
	if x.ended && deadline.IsZero() {
		lp.stopDallying(x) // x has dallied long enough
		return
	}
	if deadline.IsZero() {
		lp.timers.remove(x)
		return
	}
	// A deadline that has already passed is checked in the next turn, after the inbox.
	lp.timers.set(x, max(deadline.Sub(lp.began), lp.expiredTo+1))
}

// end ends a transfer. A worker closes its files.
func (lp *poolLoop) end(now time.Time, x *poolTransfer, err error) {
	x.ended, x.err = true, err
	if x.stop != nil {
		x.stop()
		x.stop = nil
	}
	x.noteResult(now)
	if st := x.result.Stats; st.Resent+st.Duplicates+st.Timeouts > 0 {
		lp.lossy = true
	}
	if err == nil && !x.request.write && lp.lossy && lp.dallying < maxPoolDallying && lp.stopped == nil {
		x.dallying = true
		lp.dallying++
		lp.pool.pending.add()
		lp.sockets.dally(now, x)
	} else {
		lp.detach(now, x)
	}
	if x.job == fileio.NoJob {
		lp.reportEnd(now, x)
	}
}

// reportEnd reports the end of a transfer once its files are closed, unless the request is sent
// again.
func (lp *poolLoop) reportEnd(now time.Time, x *poolTransfer) {
	if x.file.upload != nil {
		x.submit(fileio.CloseJob)
		return
	}
	q := x.request
	lp.active--
	if lp.stopped == nil && x.nextAttempt() {
		lp.sockets.enqueueFirst(q)
		lp.recycle(x)
		return
	}
	res, err := x.result, x.err
	if !x.dallying {
		lp.recycle(x)
	} else {
		x.reported = true
	}
	lp.complete(q, res, err)
}

// complete reports the end of a transfer to its caller. Until then the transfer counts as pending.
func (lp *poolLoop) complete(q *poolRequest, res Result, err error) {
	lp.inbox.load.Add(-1)
	q.end(res, err)
	lp.pool.pending.leave()
}

// stopDallying ends the dallying of a download. The download is reused once its end is reported.
func (lp *poolLoop) stopDallying(x *poolTransfer) {
	if !x.dallying {
		return
	}
	lp.detach(time.Now(), x)
	x.dallying = false
	lp.dallying--
	lp.pool.pending.leave()
	if x.reported {
		lp.recycle(x)
	}
}

// detach removes a transfer from its socket.
func (lp *poolLoop) detach(now time.Time, x *poolTransfer) {
	lp.timers.remove(x)
	if x.member != nil {
		lp.sockets.remove(now, x)
	}
}

func (lp *poolLoop) recycle(x *poolTransfer) {
	x.clear()
	if len(lp.free) < lp.slots {
		lp.free = append(lp.free, x)
	}
}
