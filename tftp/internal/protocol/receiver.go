package protocol

import (
	"encoding/binary"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// A Receiver receives one file. It acknowledges only data that the driver reports as stored. So a
// slow disk slows the peer down, and a final ACK means that the file is safe.
//
// Answer makes it answer a write request, and Request makes it send a read request. The zero
// Receiver is ready for either.
type Receiver struct {
	side
	phase   receiverPhase
	inOrder bool // drop blocks that arrive before their predecessor; in netascii a block's offset depends on all earlier blocks

	got   int64 // highest block received without a gap before it
	acked int64 // highest block acknowledged; the window begins after it
	last  int64 // number of the file's last block; 0 while unknown
	tail  int64 // bytes in the file's last block
	ahead marks // blocks received beyond `got`

	confirmed bool // an ACK of block `acked` was sent
	storing   bool // the driver has not yet stored the data that Handle returned
	ackDue    bool
	nacked    int64 // the block before the last reported gap; -1 if no gap was reported

	ackedAt time.Time // when the latest ACK was sent
	// timing means that the latest ACK opens a window and was sent only once, so we measure the
	// time until its answer.
	timing       bool
	heardAt      time.Time // when the latest DATA arrived
	storingSince time.Time // when storing became true
}

type receiverPhase uint8

const (
	receiverIdle  receiverPhase = iota
	receiverAsks                // read request sent, no answer yet
	receiverData                // data flows
	receiverDally               // the last block is acknowledged; repeats are answered
)

// reorderSpan is how many blocks may overtake a block before it counts as lost. TCP uses three as
// well (RFC 5681 §3.2).
const reorderSpan = 3

// A Chunk holds new data of the file. Chunks may come out of order within the window. Data aliases
// the datagram.
type Chunk struct {
	Offset int64
	Data   []byte
	Last   bool // the file is complete with this chunk; Data may be empty
}

// Answer makes r the server's side of a write. The argument agreed is the result of [Agree]; an
// OACK confirms these options, if there are any. In netascii, r accepts blocks only in order.
func (r *Receiver) Answer(now time.Time, mode transfer.Mode, agreed transfer.Options) {
	*r = Receiver{side: side{answers: true, lastWord: now}, ahead: r.ahead}
	r.inOrder = mode == transfer.Netascii
	r.use(agreed)
	r.phase, r.reply = receiverData, true
}

// Request makes r the client's side of a read.
func (r *Receiver) Request(now time.Time, q transfer.Request) {
	*r = Receiver{side: side{request: q, lastWord: now}, ahead: r.ahead}
	r.request.Write = false
	limitWindow(&r.request.Offer, q.Mode)
	r.inOrder = q.Mode == transfer.Netascii
	r.use(transfer.Options{})
	r.timer.limit(timeoutOf(q.Offer))
	r.phase, r.reply = receiverAsks, true
}

// DropOutOfOrder makes r drop blocks that arrive out of order, like a receiver that has memory for
// only one block. The sender then sends everything after a gap again (RFC 7440 §4). It is for
// measurements. Call it after Answer or Request.
func (r *Receiver) DropOutOfOrder() { r.inOrder = true }

func (r *Receiver) use(o transfer.Options) {
	r.side.use(o)
	r.ahead.reset(r.window)
	r.nacked = -1
}

// Handle takes a datagram from the peer and returns the new data in it. If there is data, or Last
// is set, the driver stores it and then calls Stored.
func (r *Receiver) Handle(now time.Time, b []byte) Chunk {
	if r.done && r.phase != receiverDally {
		return Chunk{}
	}
	r.stats.Received++
	switch transfer.OpcodeOf(b) {
	case transfer.Data:
		if len(b) >= transfer.HeaderSize {
			return r.data(now, binary.BigEndian.Uint16(b[2:]), b[transfer.HeaderSize:])
		}
		r.stats.Strays++
	case transfer.OptionAck:
		r.optionAck(now, b)
	case transfer.ErrorPacket:
		request := 0
		if r.phase == receiverAsks {
			request = r.firsts
		}
		r.refused(request, parseError(b), &r.stats)
	default:
		r.stats.Strays++
	}
	return Chunk{}
}

// optionAck handles a server's OACK.
func (r *Receiver) optionAck(now time.Time, b []byte) {
	switch {
	case r.answers, r.done:
		r.stats.Strays++
		return
	case r.phase == receiverData:
		r.stats.Duplicates++
		if r.got == 0 && !isZero(r.agreed) {
			r.repeatAck(now, r.ackedAt) // our ACK 0 was lost
		}
		return
	}
	o, err := parseOptionAck(b)
	if err == nil {
		err = confirmedBy(r.request.Offer, o, false)
	}
	if err != nil {
		r.abort(transfer.OptionsRefused, err.Error(), nil)
		return
	}
	if r.timing {
		r.timer.sample(now.Sub(r.ackedAt))
		r.timing = false
	}
	r.use(o)
	r.noteHeard(now)
	r.answered()
	r.ackDue = true
}

// answered begins the data phase of a read. It resets the backoff, because repetitions of the
// request say nothing about the packets that follow.
func (r *Receiver) answered() {
	r.phase, r.reply = receiverData, false
	r.timer.backoff = 0
}

func (r *Receiver) noteHeard(now time.Time) {
	r.excusePause(now)
	r.heard, r.lastWord, r.tries = true, now, 0
}

// stalled ends a transfer that has made too little progress, and reports whether it did.
func (r *Receiver) stalled(now time.Time) bool {
	return !r.done && !r.storing && r.endIfStalled(now)
}

// data handles a DATA packet with the given number.
func (r *Receiver) data(now time.Time, wire uint16, data []byte) Chunk {
	if r.phase == receiverAsks {
		if wire != 1 {
			r.stats.Strays++
			return Chunk{}
		}
		// The server knows no options: RFC 1350 applies.
		r.answered()
	}
	k := widen(r.acked+r.window, wire, r.agreed.Rollover)
	if k < 1 {
		r.stats.Strays++
		return Chunk{}
	}
	heard := r.heardAt
	r.noteHeard(now)
	r.heardAt = now
	if k <= r.got || r.ahead.has(k) {
		r.stats.Duplicates++
		if r.stalled(now) {
			return Chunk{}
		}
		if k <= r.acked {
			r.repeatAck(now, heard)
		}
		return Chunk{}
	}
	if !r.fits(k, int64(len(data))) {
		r.stats.Strays++
		return Chunk{}
	}
	r.progress.moved(now, 1, r.block)
	if r.stalled(now) {
		return Chunk{}
	}
	return r.take(now, k, data)
}

// fits checks a new block's length against what is known about the file. Only the last block may be
// short, and no block follows it. A peer that breaks this rule gets an ERROR.
func (r *Receiver) fits(k, length int64) bool {
	switch {
	case length > r.block:
		r.abort(transfer.IllegalOperation, "block longer than agreed", nil)
	case r.last != 0 && k > r.last:
		r.abort(transfer.IllegalOperation, "block after the last", nil)
	case length < r.block && r.ahead.any(k):
		r.abort(transfer.IllegalOperation, "short block inside the file", nil)
	default:
		return true
	}
	return false
}

// take accepts block k, which is new and within the window.
func (r *Receiver) take(now time.Time, k int64, data []byte) Chunk {
	if int64(len(data)) < r.block {
		r.last, r.tail = k, int64(len(data))
	}
	if r.timing && k == r.acked+1 {
		r.timer.sample(now.Sub(r.ackedAt))
		r.timing = false
	}
	r.deadline = now.Add(r.timer.rto(cautiousRTO))
	if k > r.got+1 {
		r.reportGap(k)
		if r.inOrder {
			r.last = 0
			return Chunk{}
		}
		r.ahead.set(k)
	} else {
		filled := r.advance(k)
		// An ACK is due at the end of a window and of the file. It is also due when a gap is
		// filled, because the sender waits for that.
		if r.got == r.acked+r.window || r.whole() || filled {
			r.ackDue = true
		}
	}
	c := Chunk{Offset: (k - 1) * r.block, Data: data, Last: r.whole()}
	if !r.storing && (c.Last || len(data) > 0) {
		r.storing, r.storingSince = true, now
	}
	return c
}

// whole reports whether every block of the file has arrived.
func (r *Receiver) whole() bool { return r.last != 0 && r.got == r.last }

// advance moves `got` to block k, and further over the blocks after k that arrived early. It reports
// whether this filled a gap.
func (r *Receiver) advance(k int64) (filled bool) {
	filled = r.nacked == k-1
	r.got = k
	for r.ahead.take(r.got + 1) {
		r.got++
		filled = true
	}
	return filled
}

// reportGap makes an ACK due if block k shows that the block after got is lost: either enough
// blocks have overtaken that block, or k is the last block of the window or the file. It reports
// each gap once; if that ACK is lost too, the timer repeats it.
func (r *Receiver) reportGap(k int64) {
	lost := k > r.got+reorderSpan || k == r.acked+r.window || k == r.last
	if lost && r.nacked != r.got {
		r.nacked, r.ackDue = r.got, true
	}
}

// repeatAck makes an ACK due because the peer has sent acknowledged blocks again, so the ACK may be
// lost. It does so only for the first such block after a pause, and only once the ACK has had time
// to arrive. Within a stream of data, a sender repeats such blocks needlessly after a gap. If we
// answered each of them, and the sender answered each repeated ACK with data, every packet would
// double.
func (r *Receiver) repeatAck(now, heard time.Time) {
	pause := max(r.timer.least, clockGrain)
	if now.Sub(r.ackedAt) >= pause && now.Sub(heard) >= pause {
		r.ackDue = true
	}
}

// Stored informs r that the driver has stored all chunks so far. If the latest chunk had Last set,
// the driver has also published the file.
func (r *Receiver) Stored(now time.Time) {
	if !r.storing {
		return
	}
	r.storing = false
	// The peer is not to blame for a slow store.
	r.progress.exclude(now, now.Sub(r.storingSince))
	r.lastWord = now
	r.deadline = now.Add(r.timer.rto(cautiousRTO))
}

// AppendReply appends the packet that is due, if any: an ACK, the OACK, the request, or an ERROR.
func (r *Receiver) AppendReply(now time.Time, b []byte) []byte {
	switch {
	case r.hasError:
		r.stats.Sent++
		return r.appendError(b)
	case r.done && r.phase != receiverDally:
		return b
	case r.reply:
		return r.appendFirst(now, b)
	case r.ackDue && !r.storing:
		return r.appendAck(now, b)
	}
	return b
}

// appendFirst appends the packet that opens the transfer: the request, or our answer to it.
func (r *Receiver) appendFirst(now time.Time, b []byte) []byte {
	r.reply = false
	r.firsts++
	r.stats.Sent++
	if r.firsts > 1 {
		r.stats.Resent++
	}
	r.ackedAt, r.timing = now, r.firsts == 1
	r.confirmed = r.answers // our OACK stands for ACK 0
	r.deadline = now.Add(r.timer.rto(cautiousRTO))
	switch {
	case !r.answers:
		r.deadline = now.Add(r.timer.backedOff(readRTO))
		return AppendRequest(b, r.request)
	case isZero(r.agreed):
		return appendAck(b, 0, r.agreed.Rollover)
	default:
		return appendOptionAck(b, r.agreed)
	}
}

func (r *Receiver) appendAck(now time.Time, b []byte) []byte {
	r.ackDue = false
	r.stats.Sent++
	again := r.confirmed && r.acked == r.got
	if again {
		r.stats.Resent++
	}
	r.timing, r.confirmed = !again, true
	r.acked, r.ackedAt = r.got, now
	if r.whole() {
		r.dally(now)
	} else {
		r.deadline = now.Add(r.timer.rto(cautiousRTO))
	}
	return appendAck(b, r.acked, r.agreed.Rollover)
}

// dally ends the transfer as a success but keeps r answering for a while, because the last ACK may
// be lost.
func (r *Receiver) dally(now time.Time) {
	if r.phase == receiverDally {
		return
	}
	r.phase, r.done = receiverDally, true
	wait := serverDally
	if !r.answers {
		wait = min(max(4*r.timer.rto(cautiousRTO), minClientDally), maxClientDally)
	}
	r.deadline = now.Add(wait)
}

// Deadline returns when Expire is due; zero means never. It stays set for a while after the
// transfer is done, because repeats are still answered.
func (r *Receiver) Deadline() time.Time {
	if r.storing || r.done && r.phase != receiverDally {
		return time.Time{} // we wait for the driver, not for the peer
	}
	return r.deadline
}

// Expire handles a deadline of r that has passed: it makes a packet due again, or ends the transfer
// or the dallying. A call before the deadline does nothing.
func (r *Receiver) Expire(now time.Time) {
	d := r.Deadline()
	if d.IsZero() || now.Before(d) {
		return
	}
	if r.phase == receiverDally {
		r.deadline = time.Time{}
		return
	}
	r.stats.Timeouts++
	r.tries++
	r.timer.expired()
	r.timing = false
	switch {
	case !r.heard && r.answers && r.firsts > maxFirst,
		!r.heard && !r.answers && r.firsts >= maxRequests,
		r.heard && r.tries >= minTries && now.Sub(r.lastWord) >= silence(timeoutOf(r.agreed)):
		r.fail(transfer.ErrSilent)
		return
	case r.phase == receiverAsks, !r.heard:
		r.reply = true
	default:
		r.ackDue = true
	}
	r.deadline = now.Add(r.timer.rto(cautiousRTO))
}

// Repeat handles another copy of the peer's request. It sends the answer again, up to maxFirst
// times, if the peer has sent only the request and the answer is older than repeatGap.
func (r *Receiver) Repeat(now time.Time) {
	if !r.done && !r.heard && r.firsts <= maxFirst && now.Sub(r.ackedAt) >= repeatGap {
		r.reply = true
	}
}

// Received returns how many bytes were received, counted up to the first gap.
func (r *Receiver) Received() int64 {
	if r.whole() {
		return (r.last-1)*r.block + r.tail
	}
	return r.got * r.block
}
