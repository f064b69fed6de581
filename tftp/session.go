package tftp

import (
	"cmp"
	"context"
	"io"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/internal/rate"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/internal/packetio"
	"github.com/haul-project/haul/tftp/transfer"
)

// A session is one transfer of a server. Its shard's loop owns it. While a job
// is out (job is not NoJob), a worker owns the fields below "worker".
type session struct {
	shard    *shard
	peer     netip.AddrPort
	local    netip.Addr // the address the peer asked, which we answer from
	request  Request
	began    time.Time
	answered time.Time // when the peer answered our answer; zero before
	state    state
	stored   string       // an upload's name in the store, if it is another than the client's
	info     *Transfer    // passed to Started; nil if that was not called
	life     *lifeContext // ends with the transfer, for Read and Write; nil without them
	waits    waits

	timer     int        // place in the shard's timers, counted from 1
	counted   bool       // among the transfers under way
	scheduled bool       // in the shard's list of sessions to advance
	quiet     bool       // repeats no answer by itself
	heldUntil time.Time  // an upload's next ACK waits for a rate; zero if it does not
	throttle  *rate.Pair // of the address; nil without
	unproven  bool       // nothing shows that the peer exists: see guard
	credit    int64      // bytes of the guard's that it holds meanwhile

	sender    *transfer.Sender   // a read; kept for the next one
	receiver  *transfer.Receiver // a write; likewise
	shared    *sharedCache       // what the readers of the file share
	joined    int64              // the turn in which it began to
	buffer    fileio.WriteBuffer
	reserved  int64 // bytes of memory that an upload will need
	ringCost  int64 // and those that it has taken
	fetchCost int64 // and for what fetch.buf holds

	job  fileio.Job  // what a worker does for this session now
	gone atomic.Bool // the session has ended; a scan may stop

	// worker
	ctx      context.Context // life, or the server's
	mtu      int             // of the path to the peer; 0 if unknown
	file     store.File
	reader   io.ReaderAt // file, or its translation to netascii
	size     int64       // of what reader reads
	try      store.TryReader
	identity store.Identity // of file; zero if unknown
	upload   store.Upload
	path     string // of the file or the upload on the disk, "" if unknown
	jobErr   error
	fetch    fileio.FetchBuffer

	published *store.Published // by an upload; nil before
}

type state uint8

const (
	opening  state = iota // the request waits for the store
	running               // packets flow
	storing               // a write whose last block has come, being published
	dallying              // done, logged, still answering repeats
	ended                 // off the table; waits for its job, then is reused
)

const (
	// The bytes that one session reads ahead from memory: its part of aheadShare,
	// which all of a shard have together, and minAhead in any case.
	minAhead   = 2 << 10
	maxAhead   = 8 << 10
	aheadShare = 8 << 20

	repeatsFor = time.Second // a request's repeats may still come, once the peer was heard

	minReads = 4 // how many blocks reading ahead must give at the least
)

// waits counts what a transfer has waited for.
type waits struct {
	since      time.Time // when it began to wait for the store; zero if it does not
	disk, lost time.Duration
	heard      time.Time // when the peer said something, or its silence was last counted
	timeouts   int64
}

func (w *waits) begin(now time.Time) {
	if w.since.IsZero() {
		w.since = now
	}
}

func (w *waits) end(now time.Time) {
	if !w.since.IsZero() {
		w.disk += now.Sub(w.since)
		w.since = time.Time{}
	}
}

// begin makes a session of a request.
func (s *session) begin(now time.Time, q Request) {
	s.peer, s.local, s.request, s.began = q.Peer, q.Local.Addr(), q, now
	s.state, s.counted, s.unproven, s.answered = opening, true, true, time.Time{}
	s.waits = waits{since: now, heard: now}
	switch {
	case q.Write && s.receiver == nil:
		s.receiver = new(transfer.Receiver)
	case !q.Write && s.sender == nil:
		s.sender = new(transfer.Sender)
	}
	srv := s.shard.server
	s.throttle = srv.bandwidth.enter(q.Peer.Addr())
	if s.ctx = srv.ctx; srv.config.Read != nil || srv.config.Write != nil {
		s.life = &lifeContext{Context: srv.ctx}
		s.ctx = s.life
	}
}

// isSame reports whether q is the request that began s.
func (s *session) isSame(q Request) bool {
	return s.request.Request == q.Request
}

// repeated reports whether q, which came now, is the request that began s once
// more. The network makes such repeats, and so does a peer that waits for our
// answer, however long the store takes to give one: the last of them may
// come after what the peer said to the answer, as requests have a port of their
// own. Later than a second after that, or another request, it is of a peer that
// began anew: some use the same port after each reset.
func (s *session) repeated(now time.Time, q Request) bool {
	return s.isSame(q) && s.state != dallying && (s.answered.IsZero() || now.Sub(s.answered) < repeatsFor)
}

// repeat answers a request sent once more.
func (s *session) repeat(now time.Time) {
	switch {
	case s.state != running:
	case s.request.Write:
		s.receiver.Repeat(now)
	default:
		s.sender.Repeat(now)
	}
}

// start begins the machine, once the store has answered.
func (s *session) start(now time.Time) {
	if s.jobErr == nil && s.awaitsScan() {
		s.shard.submit(s, fileio.ScanJob)
		return
	}
	if s.jobErr != nil {
		code, msg := errorPacketFor(s.jobErr)
		s.shard.out.AddError(s.peer, s.local, code, msg)
		s.shard.end(now, s, s.jobErr)
		return
	}
	s.state = running
	if named, ok := s.upload.(interface{ StoredName() string }); ok && named.StoredName() != s.request.Name {
		s.stored = named.StoredName()
	}
	s.waits.end(now)
	if s.reader != nil { // nothing has been fetched
		s.shard.memory.release(&s.fetchCost)
	} else {
		s.shard.memory.lower(&s.fetchCost, s.size)
	}
	s.agree(now)
	if srv := s.shard.server; srv.config.Hooks.Started != nil {
		s.info = s.describe()
		s.info.Agreed = s.agreed()
		s.info.progress.window = max(1, s.info.Agreed.Window)
		srv.call(srv.config.Hooks.Started, s.info)
	}
}

// agree chooses the options, and begins the machine with them.
func (s *session) agree(now time.Time) {
	write := s.request.Write
	size := s.size
	if write {
		size = -1
	}
	agreed := s.limits().Agree(s.request.Request, size)
	agreed.Window = min(agreed.Window, s.shard.mostBlocks(agreed, write))
	s.boundByRate(&agreed)
	if write {
		s.receiver.Answer(now, s.request.Mode, agreed)
		s.shard.memory.reserve(&s.reserved, int64(s.leastRing()))
		return
	}
	if agreed.Window <= 1 && s.request.Mode == transfer.Octet && agreed.BlockSize <= maxAhead/minReads && s.size > maxAhead {
		s.shard.join(s) // a smaller file is read at once, and there is nothing to share
	}
	s.sender.Answer(now, agreed, size)
	s.holdBlocks(now, 0)
	if s.quiet {
		s.sender.Quiet()
	}
	// Until the peer has acknowledged data, it may be a forger's victim.
	block := int64(s.sender.BlockSize())
	window := min(size/block+1, int64(max(1, agreed.Window))) * block
	var known bool
	if s.credit, known = s.shard.server.guard.grant(now, s.peer.Addr(), window); !known {
		s.sender.Cautious(s.credit)
	}
}

// limits returns the server's, with a block size that fits the peer's path.
func (s *session) limits() transfer.Limits {
	limits := s.shard.server.config.Limits
	limits.Rollover = cmp.Or(s.shard.server.config.rolloverOf(s.peer.Addr()), limits.Rollover)
	if s.mtu > 0 {
		fits := max(packetio.BlockIn(s.mtu, s.peer.Addr()), transfer.MinBlockSize)
		if limits.BlockSize == 0 || limits.BlockSize > fits {
			limits.BlockSize = fits
		}
	}
	if s.isLimited() {
		fits := int(max(min(s.share(1), transfer.MaxBlockSize), transfer.DefaultBlockSize))
		if limits.BlockSize == 0 || limits.BlockSize > fits {
			limits.BlockSize = fits
		}
	}
	return limits
}

func (s *session) agreed() transfer.Options {
	if s.request.Write {
		return s.receiver.Agreed()
	}
	return s.sender.Agreed()
}

// prove takes a transfer off the guard's list of those that may be forged. It is
// proven if the peer has sent or acknowledged data, and over if not.
func (sh *shard) prove(now time.Time, s *session, proven bool) {
	if s.unproven {
		s.unproven = false
		sh.server.guard.release(now, s.peer.Addr(), s.credit, proven)
		s.credit = 0
	}
}

// awaitsScan reports whether a text file is open, but not looked through.
func (s *session) awaitsScan() bool {
	return !s.request.Write && s.request.Mode == transfer.Netascii && s.reader == s.file
}

// handle takes a datagram from the peer.
func (s *session) handle(now time.Time, b []byte) {
	s.waits.heard = now
	switch {
	case s.state == opening || s.state == ended:
	case !s.request.Write:
		s.sender.Handle(now, b)
		s.noteAnswer(now, s.sender.Heard())
		if s.unproven && s.sender.Acked() > 0 {
			s.shard.prove(now, s, true)
		}
	default:
		c := s.receiver.Handle(now, b)
		s.noteAnswer(now, s.receiver.Heard())
		if len(c.Data) == 0 && !c.Last {
			return
		}
		if err := s.store(now, c); err != nil {
			s.abort(now, err)
			return
		}
		s.holdACK(now, len(c.Data))
		if c.Last {
			s.state = storing
		}
		s.acknowledge(now)
	}
}

// noteAnswer notes when the machine has heard of the peer for the first time.
func (s *session) noteAnswer(now time.Time, heard bool) {
	if heard && s.answered.IsZero() {
		s.answered = now
	}
}

// advance puts into the send batch what is due, and sets the timer.
func (s *session) advance(now time.Time) {
	switch {
	case s.state == opening || s.state == ended:
		return
	case s.request.Write:
		s.shard.out.AddReply(now, s.peer, s.local, s.receiver)
		if s.info != nil {
			s.info.progress.report(s.receiver.Received(), s.receiver.Stats())
		}
		s.checkMachine(now, s.receiver)
	default:
		s.shard.out.AddReply(now, s.peer, s.local, s.sender)
		s.sendData(now)
		if s.info != nil {
			s.info.progress.report(s.sender.Acked(), s.sender.Stats())
		}
		s.checkMachine(now, s.sender)
	}
}

// checkMachine looks at where the machine stands after a turn.
func (s *session) checkMachine(now time.Time, m packetio.Machine) {
	done, err := m.Done()
	deadline := m.Deadline()
	switch {
	case done && deadline.IsZero():
		s.shard.end(now, s, err)
	case done && s.state != dallying:
		s.state = dallying
		s.shard.dropRing(s)
		if s.shard.finish(now, s, err); s.state == dallying {
			s.shard.timers.set(s, deadline)
		}
	default:
		s.shard.timers.set(s, deadline)
	}
}

// endIfDone ends a session whose machine is done, if the turn has not come to
// that yet: the last ACK and the next request may come together.
func (s *session) endIfDone(now time.Time) {
	if s.state != running && s.state != storing {
		return
	}
	var done bool
	var err error
	if s.request.Write {
		done, err = s.receiver.Done()
	} else {
		done, err = s.sender.Done()
	}
	if done {
		s.shard.end(now, s, err)
	}
}

// expire looks at a session whose time has come.
func (s *session) expire(now time.Time) {
	if s.state == opening || s.state == ended {
		return
	}
	var timeouts int64
	if s.request.Write {
		s.resume(now)
		s.receiver.Expire(now)
		timeouts = s.receiver.Stats().Timeouts
	} else {
		s.sender.Expire(now)
		timeouts = s.sender.Stats().Timeouts
	}
	if timeouts > s.waits.timeouts {
		s.waits.timeouts = timeouts
		s.waits.lost += now.Sub(s.waits.heard)
		s.waits.heard = now
	}
}

// abort ends the transfer for a reason of ours, and sends the peer an ERROR.
func (s *session) abort(now time.Time, err error) {
	code, msg := errorPacketFor(err)
	switch {
	case s.state == opening:
		s.shard.out.AddError(s.peer, s.local, code, msg)
		s.shard.end(now, s, err)
	case s.request.Write:
		s.receiver.Abort(code, msg, err)
	default:
		s.sender.Abort(code, msg, err)
	}
}

// jobDone takes a session back from a worker.
func (s *session) jobDone(now time.Time) {
	done := s.job
	s.job = fileio.NoJob
	switch {
	case s.state == ended:
		s.shard.release(s)
	case done == fileio.OpenJob, done == fileio.ScanJob:
		s.start(now)
	case done == fileio.CloseJob: // it stays to answer repeats
	case s.jobErr != nil:
		s.abort(now, s.jobErr)
	case done == fileio.FetchJob:
		s.waits.end(now)
	case done == fileio.FlushJob:
		s.buffer.Free()
		s.acknowledge(now)
	case done == fileio.CommitJob:
		s.waits.end(now)
		s.confirm(now)
	}
}

// mostBlocks returns the largest window for the block size agreed on. An upload
// gets no more than a share of the memory that is left and not promised, so
// that large requests leave room for others.
func (sh *shard) mostBlocks(agreed transfer.Options, write bool) int {
	most := int64(maxWindowBytes)
	if write {
		most = min(most, sh.memory.mostForWindow())
	}
	return max(1, int(most/int64(max(agreed.BlockSize, transfer.DefaultBlockSize))))
}
