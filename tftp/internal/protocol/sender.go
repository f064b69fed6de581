package protocol

import (
	"encoding/binary"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// A Sender sends one file. It never sees the file's bytes: it says which blocks are due, and the
// driver fetches them.
//
// Answer makes it answer a read request, and Request makes it send a write request. The zero Sender
// is ready for either.
type Sender struct {
	side
	phase   senderPhase
	quiet   bool // the timer does not repeat the first DATA
	caution caution

	size  int64 // bytes in the file
	total int64 // blocks in the file; the last one is shorter than a full block

	// acked < next. The blocks between them are in flight.
	acked int64 // highest block acknowledged; all blocks before it are acknowledged too
	next  int64 // lowest block never sent

	recovery recovery
	pacer    pacer
	held     time.Time // the driver sends no blocks before this time; zero if it may send now
	timed    int64     // block whose round trip is measured; 0 for none
	timedAt  time.Time // when block `timed` was sent
	timedRun int64     // how many blocks were sent at once, including block `timed`
	// suspect is how many blocks of a burst arrived, if a trial must show whether the path holds
	// more than that; 0 otherwise.
	suspect  int64
	measured bool      // a round trip of DATA was measured; that of a request or an OACK does not count
	moved    time.Time // when the peer last acknowledged something new
	echo     int64     // block acknowledged after a timeout; a second ACK of it may be an echo: see echoSpan
	hasty    bool      // the timeout before the ACK of block `echo` is known to have been needless
}

type senderPhase uint8

const (
	senderIdle  senderPhase = iota
	senderAsks              // write request sent, no answer yet
	senderOffer             // OACK sent, no ACK 0 yet
	senderData              // data flows
)

// Answer makes s the server's side of a read of a file of size bytes. The argument agreed is the
// result of [Agree]; an OACK confirms these options, if there are any.
func (s *Sender) Answer(now time.Time, agreed transfer.Options, size int64) {
	*s = Sender{side: side{answers: true, lastWord: now}}
	s.use(agreed, size)
	s.phase = senderData
	if !isZero(agreed) {
		s.phase, s.reply = senderOffer, true
	}
}

// Quiet keeps the timer of s from repeating the first DATA before the peer is heard. Only a
// repeated request makes s send it again. A server that answers very many requests at once uses
// Quiet, since those requests may be forged. Call it after Answer.
func (s *Sender) Quiet() { s.quiet = true }

// Request makes s the client's side of a write of size bytes.
func (s *Sender) Request(now time.Time, r transfer.Request, size int64) {
	*s = Sender{side: side{request: r, lastWord: now, reply: true}, phase: senderAsks}
	s.request.Write = true
	limitWindow(&s.request.Offer, r.Mode)
	s.use(transfer.Options{}, size)
	s.timer.limit(timeoutOf(r.Offer))
}

// use applies agreed options, and sets the fields that depend on them.
func (s *Sender) use(o transfer.Options, size int64) {
	s.side.use(o)
	s.size = size
	s.total = size/s.block + 1 // a file of whole blocks ends in an empty one
	s.next = 1
}

// Handle handles a datagram from the peer.
func (s *Sender) Handle(now time.Time, b []byte) {
	if s.done {
		return
	}
	s.stats.Received++
	switch transfer.OpcodeOf(b) {
	case transfer.Acknowledgement:
		if len(b) < transfer.HeaderSize {
			s.stats.Strays++
			return
		}
		s.ack(now, binary.BigEndian.Uint16(b[2:]))
	case transfer.OptionAck:
		s.optionAck(now, b)
	case transfer.ErrorPacket:
		request := 0
		if s.phase == senderAsks {
			request = s.firsts
		}
		s.refused(request, parseError(b), &s.stats)
	default:
		s.stats.Strays++
	}
}

// ack handles an acknowledgement with the given number.
func (s *Sender) ack(now time.Time, wire uint16) {
	if s.phase != senderData {
		if wire != 0 {
			s.stats.Strays++
			return
		}
		// A server that knows no options answers a write with ACK 0: RFC 1350 applies.
		s.begin(now)
		return
	}
	k := widen(s.next-1, wire, s.agreed.Rollover)
	if k < s.acked {
		s.stats.Strays++ // the block was acknowledged long ago, or never sent
		return
	}
	s.noteHeard(now)
	if k == s.acked {
		s.caution.spoke(s.block)
		s.stats.Duplicates++
		if s.stalled(now) || s.echoes(now, k) {
			return
		}
		// If both peers answered repeated packets, each packet would double (Sorcerer's Apprentice,
		// RFC 1123 §4.2.3.1). With a window, though, the receiver repeats an ACK to report a gap
		// (RFC 7440 §4); we answer that once per round trip.
		if s.window > 1 && s.next > k+1 {
			s.reportedGap(now)
		}
		return
	}
	s.advance(now, k)
}

// begin starts sending data once the peer has agreed to the transfer.
func (s *Sender) begin(now time.Time) {
	if s.firsts == 1 {
		s.timer.sample(now.Sub(s.timedAt))
	}
	s.noteHeard(now)
	s.progress.start(now)
	s.timer.backoff = 0
	s.phase, s.reply = senderData, false
	s.deadline = time.Time{}
}

func (s *Sender) noteHeard(now time.Time) {
	s.excusePause(now)
	s.excludeStoreTime(now)
	s.heard, s.lastWord, s.tries, s.recovery.wholes = true, now, 0, 0
}

// excludeStoreTime excludes the time since the peer last sent something from the progress clock, if
// the driver spent that time fetching the data that is due. The peer is not to blame for a slow
// disk.
func (s *Sender) excludeStoreTime(now time.Time) {
	if s.deadline.IsZero() {
		s.progress.exclude(now, now.Sub(s.lastWord))
		s.lastWord = now
	}
}

// optionAck handles a server's OACK.
func (s *Sender) optionAck(now time.Time, b []byte) {
	if s.phase != senderAsks {
		if s.answers {
			s.stats.Strays++
		} else {
			s.stats.Duplicates++ // the server missed DATA 1; the timer sends it again
		}
		return
	}
	o, err := parseOptionAck(b)
	if err == nil {
		err = confirmedBy(s.request.Offer, o, true)
	}
	if err != nil {
		s.abort(transfer.OptionsRefused, err.Error(), nil)
		return
	}
	s.use(o, s.size)
	s.begin(now)
}

// A Run is a span of consecutive blocks that a Sender wants to send. Each holds a full block of
// data, but the last one of the file may be shorter.
type Run struct {
	Block  int64 // first block, counted from 1 and never wrapping
	Blocks int   // how many blocks; zero when nothing is due
	Offset int64 // where the first block's data begins in the file, in bytes
	Bytes  int64 // how many bytes of the file the run covers
}

// Due returns the next blocks to send. The driver sends some of them, reports how many with Sent,
// and asks again until nothing is due. The Run is valid until the next call of Handle, Expire or
// Repeat; call Due again after such a call.
func (s *Sender) Due(now time.Time) Run {
	if s.done || s.phase != senderData || s.held.After(now) {
		return Run{}
	}
	s.held = time.Time{}
	first, last := s.pending()
	if first <= last {
		last = first + s.pacer.room(now, last-first+1) - 1
	}
	return s.run(first, last)
}

// pending returns the next blocks to send. If first is above last, no block is pending.
func (s *Sender) pending() (first, last int64) {
	if first, last = s.recovery.due(s.acked); first <= last || s.recovery.holding {
		if s.caution.forbids(s.run(first, first).Bytes) {
			return 1, 0
		}
		return first, last
	}
	return s.caution.first(s.next, min(s.acked+s.window, s.total))
}

// Hold keeps blocks back until the given time, for a driver that limits the rate. The timer does
// not expire while blocks wait.
func (s *Sender) Hold(until time.Time) { s.held = until }

func (s *Sender) run(first, last int64) Run {
	if first > last {
		return Run{}
	}
	offset := (first - 1) * s.block
	return Run{
		Block:  first,
		Blocks: int(last - first + 1),
		Offset: offset,
		Bytes:  min(s.size, last*s.block) - offset,
	}
}

// Sent records that the driver has sent the given number of blocks, the first ones of the run from
// Due.
func (s *Sender) Sent(now time.Time, blocks int) {
	if blocks <= 0 || s.done {
		return
	}
	n := int64(blocks)
	s.stats.Sent += n
	if !s.heard {
		s.firsts++
		s.timedAt = now
	}
	s.excludeStoreTime(now)
	first, last := s.recovery.due(s.acked)
	again := first <= last
	if !again {
		first, _ = s.pending()
	}
	if s.window > 1 {
		s.pacer.took(now, first, n)
	}
	if again {
		s.recovery.sent(now, first, n)
	}
	if first < s.next {
		s.stats.Resent += n - s.caution.sent(first, n, s.run(first, first+n-1).Bytes)
	} else {
		s.next = first + n
		s.time(now)
	}
	s.arm(now)
	if s.recovery.holding {
		s.recovery.probeEnds = s.deadline
	}
}

// manyTries is the number of timeouts in a row after which the peer is assumed to be gone, rather
// than the path to be lossy.
const manyTries = 8

// arm starts the timer. After many timeouts, if only the last ACK of a read is missing, the timer
// expires no later than finalSilence after the last word of the peer, because such a read then
// ends.
func (s *Sender) arm(now time.Time) {
	s.deadline = now.Add(s.rto())
	if s.tries < manyTries || !s.Delivered() {
		return
	}
	if over := s.lastWord.Add(finalSilence); over.After(now) && over.Before(s.deadline) {
		s.deadline = over
	}
}

// AppendReply appends the packet that is due, if any: the OACK, the request, or an ERROR. Due
// returns the DATA.
func (s *Sender) AppendReply(now time.Time, b []byte) []byte {
	if s.hasError {
		s.stats.Sent++
		return s.appendError(b)
	}
	if !s.reply || s.done {
		return b
	}
	s.reply = false
	s.firsts++
	s.stats.Sent++
	if s.firsts > 1 {
		s.stats.Resent++
	}
	s.timedAt = now
	if s.answers {
		s.deadline = now.Add(s.timer.rto(0))
		return appendOptionAck(b, s.agreed)
	}
	s.deadline = now.Add(s.timer.backedOff(writeRTO))
	return AppendRequest(b, s.request)
}

// Deadline returns when Expire is due; zero means never.
func (s *Sender) Deadline() time.Time {
	if s.done {
		return time.Time{}
	}
	if resumes, wait := s.paced(); wait && (s.deadline.IsZero() || resumes.Before(s.deadline)) {
		return resumes // at that time Expire does nothing, but Due returns blocks
	}
	return s.deadline
}

// paced reports whether blocks wait because of the pacer or of Hold, and until when.
func (s *Sender) paced() (resumes time.Time, wait bool) {
	if s.pacer.holds == 0 && s.held.IsZero() || s.phase != senderData {
		return time.Time{}, false
	}
	first, last := s.pending()
	if s.pacer.holds > 0 {
		resumes = s.pacer.resumes(last - first + 1)
	}
	if s.held.After(resumes) {
		resumes = s.held
	}
	return resumes, first <= last
}

// Expire handles a deadline of s that has passed: it makes packets due again, or ends the transfer.
// A call before the deadline does nothing.
func (s *Sender) Expire(now time.Time) {
	if s.done || s.deadline.IsZero() || now.Before(s.deadline) {
		return
	}
	if resumes, wait := s.paced(); wait && resumes.After(now) {
		s.deadline = resumes.Add(s.rto())
		return
	}
	if s.recovery.holding {
		if s.recovery.deferred {
			s.rewind(now)
			return
		}
		s.recovery.unanswered(now, s.acked, s.next-1)
		s.deadline = now.Add(s.rto())
		return
	}
	s.stats.Timeouts++
	s.tries++
	s.timer.expired()
	s.timed = 0
	if s.endIfSilent(now) {
		return
	}
	switch {
	case s.phase != senderData:
		s.reply = true
	case s.heard, !s.answers, s.firsts <= s.mostFirstData():
		s.recovery.restart(now, s.acked, s.next-1)
	}
	s.arm(now)
}

// mostFirstData returns how many times the timer may repeat the first DATA before the peer is
// heard.
func (s *Sender) mostFirstData() int {
	if s.quiet {
		return 0
	}
	return maxFirstData
}

// endIfSilent ends a transfer whose peer has been silent too long, and reports whether it did.
func (s *Sender) endIfSilent(now time.Time) bool {
	silent := now.Sub(s.lastWord)
	if s.tries < minTries {
		silent = 0
	}
	switch {
	case !s.heard && s.answers && max(s.firsts, s.tries) > maxFirst:
	case !s.heard && !s.answers && s.firsts >= maxRequests:
	case s.heard && s.unconfirmed() && silent >= finalSilence:
		s.stats.Unconfirmed, s.done = true, true
		return true
	case s.heard && silent >= silence(timeoutOf(s.agreed)):
	default:
		return false
	}
	s.fail(transfer.ErrSilent)
	return true
}

// stalled ends a transfer that has made too little progress, and reports whether it did.
func (s *Sender) stalled(now time.Time) bool {
	return s.phase == senderData && s.endIfStalled(now)
}

// unconfirmed reports whether only the last window of a read lacks its ACK.
func (s *Sender) unconfirmed() bool {
	return s.answers && s.acked >= s.total-s.window && s.next > s.total && !s.caution.skips()
}

// Delivered reports whether all blocks have been sent, and only the last window's acknowledgement
// is missing. Some boot ROMs never send that acknowledgement, so the transfer counts as a success
// if the peer sends another request.
func (s *Sender) Delivered() bool { return s.heard && s.unconfirmed() }

// Repeat handles another copy of the peer's request. It sends the answer again, up to maxFirst
// times, if the peer has sent only the request and the answer is older than repeatGap.
func (s *Sender) Repeat(now time.Time) {
	if s.done || s.heard || s.firsts > maxFirst || now.Sub(s.timedAt) < repeatGap {
		return
	}
	if s.phase == senderOffer {
		s.reply = true
	} else if s.next > 1 {
		s.recovery.restart(now, s.acked, s.next-1)
		s.timed = 0
	}
}

// Acked returns how many bytes of the file the peer has acknowledged.
func (s *Sender) Acked() int64 { return min(s.acked*s.block, s.size) }
