package tftp

import (
	"cmp"
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/internal/rate"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/internal/packetio"
	"github.com/haul-project/haul/tftp/transfer"
)

// A session is one transfer of a server, with the state that a read and a write share. A reading or
// a writing embeds it. The loop of its shard owns it. While a worker does a job for it (job is not
// NoJob), the worker owns the last four fields, and the files of the reading or writing.
type session struct {
	shard    *shard
	side     side
	machine  machine // the Sender or Receiver in `side`
	peer     netip.AddrPort
	local    netip.Addr // the address to which the request was sent; we answer from it
	request  Request
	began    time.Time
	answered time.Time // when the peer first reacted to our answer; zero before that
	state    state
	info     *Transfer    // the Transfer passed to Started; nil if Started was not called
	life     *lifeContext // the context for Config.Read and Write, cancelled when the transfer ends; nil if neither is set
	waits    waits
	throttle throttle

	timer     int   // index in the shard's timers, from 1
	counted   bool  // the session is counted among the transfers under way
	scheduled bool  // the session is in the shard's list of sessions to advance
	quiet     bool  // the answer is repeated only when the peer repeats the request: see guard
	unproven  bool  // nothing has shown yet that the peer exists: see guard
	credit    int64 // bytes that the guard has granted to the session while it is unproven

	job  fileio.Job  // the job that a worker does now, or NoJob
	gone atomic.Bool // the session has ended, so a scan can stop

	// While a worker does a job, it owns these fields.

	ctx    context.Context // `life`, or the server's context if life is nil
	mtu    int             // path MTU to the peer; 0 if unknown
	path   string          // path of the file or upload on disk, "" if unknown
	jobErr error
}

// A side is the part of a session that differs between a reading and a writing.
type side interface {
	// The loop calls these.

	ready() bool                               // reports whether the machine may begin, once the file is open
	agree(now time.Time)                       // chooses the options, and starts the machine with them
	receive(now time.Time, b []byte)           // handles a datagram from the peer
	checkTimers(now time.Time)                 // handles the deadlines that have passed
	send(now time.Time)                        // adds the data that is due to the send batch
	continueAfter(now time.Time, j fileio.Job) // handles the result of a job that succeeded
	// delivered reports whether all data of a read was sent, and only the ACK of the last window is
	// missing.
	delivered() bool
	leave()                          // stops sharing data with other transfers
	shrink()                         // frees memory that is not needed for answering repeats
	settle(now time.Time, err error) // handles the end of the transfer; err is nil for success
	recycle()                        // resets the side for another transfer, once its file is closed

	size() int64          // bytes of the file, as reported by its store or client; -1 if unknown
	moved() int64         // bytes that the peer has acknowledged or sent
	conclude(t *Transfer) // adds this side's data to a report

	// A worker calls these.

	openFile() error
	work() error // does a job other than opening or closing
	isOpen() bool
	closeFile()
}

// A machine is a [protocol.Sender] or a [protocol.Receiver].
type machine interface {
	packetio.Machine
	Abort(code transfer.ErrorCode, msg string, err error)
	Agreed() transfer.Options
	Repeat(now time.Time)
	Stats() transfer.Stats
}

type state uint8

const (
	opening  state = iota // the request waits for the store
	running               // packets flow
	storing               // the last block of an upload was received, and the file is being published
	dallying              // done and logged, but still answering repeats
	ended                 // removed from the shard's sessions; reused once its job is done
)

// maxSpare is how many unused readings, and how many unused writings, are kept with their buffers
// for later transfers. After a larger burst of transfers, the garbage collector frees the others.
const maxSpare = 256

// repeatsFor is how long repeats of a request may still arrive after the peer has first reacted to
// the answer.
const repeatsFor = time.Second

// waits measures how long a transfer has waited, and for what.
type waits struct {
	since      time.Time // when the transfer began to wait for the store; zero if it does not wait
	disk, lost time.Duration
	heard      time.Time // when the peer was last heard, or its silence was last counted as lost
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

// noteTimeouts counts the time since the peer was last heard as lost if a timer has expired.
// timeouts is the number of timeouts so far.
func (w *waits) noteTimeouts(now time.Time, timeouts int64) {
	if timeouts > w.timeouts {
		w.timeouts = timeouts
		w.lost += now.Sub(w.heard)
		w.heard = now
	}
}

// begin initializes a session for a request. The function way returns the bucket that counts the
// session's data.
func (s *session) begin(now time.Time, q Request, way func(*rate.Pair) *rate.Bucket) {
	s.peer, s.local, s.request, s.began = q.Peer, q.Local.Addr(), q, now
	s.state, s.counted, s.unproven, s.answered = opening, true, true, time.Time{}
	s.waits = waits{since: now, heard: now}
	srv := s.shard.server
	s.throttle = srv.bandwidth.enter(q.Peer.Addr(), way, &srv.count)
	if s.ctx = srv.ctx; srv.config.Read != nil || srv.config.Write != nil {
		s.life = &lifeContext{Context: srv.ctx}
		s.ctx = s.life
	}
}

// repeated reports whether q, which arrived at now, is a repeat of the request that began s. The
// network duplicates requests, and a peer repeats its request while it waits for our answer,
// however long the store takes. The last repeat may arrive after the peer's reaction to the answer,
// because requests have their own port. If a request arrives more than a second after that
// reaction, or is different, the peer has started again: some peers use the same port after each
// reset.
func (s *session) repeated(now time.Time, q Request) bool {
	return s.request.Request == q.Request && s.state != dallying && (s.answered.IsZero() || now.Sub(s.answered) < repeatsFor)
}

// repeat answers a request that the peer has sent again.
func (s *session) repeat(now time.Time) {
	if s.state == running {
		s.machine.Repeat(now)
	}
}

// start starts the machine, once the store has answered.
func (s *session) start(now time.Time) {
	if s.jobErr != nil {
		s.refuse(now, s.jobErr)
		return
	}
	if !s.side.ready() {
		return
	}
	s.state = running
	s.waits.end(now)
	s.side.agree(now)
	if srv := s.shard.server; srv.config.Hooks.Started != nil {
		s.info = s.describe()
		s.info.Agreed = s.machine.Agreed()
		s.info.progress.window = max(1, s.info.Agreed.Window)
		srv.call(srv.config.Hooks.Started, s.info)
	}
}

// refuse answers the request with an ERROR, and ends a transfer that has not begun.
func (s *session) refuse(now time.Time, err error) {
	code, msg := errorPacketFor(err)
	s.shard.out.AddError(s.peer, s.local, code, msg)
	s.end(now, err)
}

// limits returns the server's limits, with a block size that fits the path to the peer.
func (s *session) limits() transfer.Limits {
	config := &s.shard.server.config
	limits := config.Limits
	limits.Rollover = cmp.Or(config.rolloverOf(s.peer.Addr()), limits.Rollover)
	atMost := func(block int) {
		if limits.BlockSize == 0 || limits.BlockSize > block {
			limits.BlockSize = block
		}
	}
	if s.mtu > 0 {
		atMost(max(packetio.BlockIn(s.mtu, s.peer.Addr()), transfer.MinBlockSize))
	}
	if s.throttle.limited {
		atMost(int(max(min(s.throttle.share(1), transfer.MaxBlockSize), transfer.DefaultBlockSize)))
	}
	return limits
}

// blocksIn returns how many blocks of the agreed size fit into n bytes, at least 1.
func blocksIn(n int64, agreed transfer.Options) int {
	return max(1, int(n/int64(max(agreed.BlockSize, transfer.DefaultBlockSize))))
}

// prove ends the unproven state of a transfer, in which the guard counts it as possibly forged.
// proven says that the peer has sent or acknowledged data; if it is false, the transfer is over.
func (s *session) prove(now time.Time, proven bool) {
	if s.unproven {
		s.unproven = false
		s.shard.server.guard.release(now, s.peer.Addr(), s.credit, proven)
		s.credit = 0
	}
}

// handle handles a datagram from the peer.
func (s *session) handle(now time.Time, b []byte) {
	s.waits.heard = now
	if s.state != opening && s.state != ended {
		s.side.receive(now, b)
	}
}

// noteAnswer records the time at which the machine first heard the peer.
func (s *session) noteAnswer(now time.Time, heard bool) {
	if heard && s.answered.IsZero() {
		s.answered = now
	}
}

// advance adds the packets that are due to the send batch, and sets the timer.
func (s *session) advance(now time.Time) {
	if s.state == opening || s.state == ended {
		return
	}
	s.shard.out.AddReply(now, s.peer, s.local, s.machine)
	s.side.send(now)
	if s.info != nil {
		s.info.progress.report(s.side.moved(), s.machine.Stats())
	}
	done, err := s.machine.Done()
	deadline := s.machine.Deadline()
	switch {
	case done && deadline.IsZero():
		s.end(now, err)
	case done && s.state != dallying:
		s.state = dallying
		s.side.shrink()
		if s.finish(now, err); s.state == dallying {
			s.shard.timers.set(s, deadline)
		}
	default:
		s.shard.timers.set(s, deadline)
	}
}

// endIfDone ends a session whose machine is done, but which was not yet advanced in this turn. This
// happens if the last ACK and the peer's next request arrive in the same turn.
func (s *session) endIfDone(now time.Time) {
	if s.state != running && s.state != storing {
		return
	}
	if done, err := s.machine.Done(); done {
		s.end(now, err)
	}
}

// expire handles a session whose timer has expired.
func (s *session) expire(now time.Time) {
	if s.state == opening || s.state == ended {
		return
	}
	s.side.checkTimers(now)
	s.waits.noteTimeouts(now, s.machine.Stats().Timeouts)
}

// abort ends the transfer for a reason on our side, and sends the peer an ERROR.
func (s *session) abort(now time.Time, err error) {
	if s.state == opening {
		s.refuse(now, err)
		return
	}
	code, msg := errorPacketFor(err)
	s.machine.Abort(code, msg, err)
}

// submit passes the session to a worker. It never waits, because the queue has room for every
// possible session.
func (s *session) submit(j fileio.Job) {
	s.job = j
	s.shard.jobs++
	if srv := s.shard.server; j == fileio.ScanJob {
		srv.scans <- s
	} else {
		srv.workers.Add(s)
	}
}

// jobDone handles the result of a job, once a worker has returned the session.
func (s *session) jobDone(now time.Time) {
	done := s.job
	s.job = fileio.NoJob
	switch {
	case s.state == ended:
		s.release()
	case done == fileio.OpenJob, done == fileio.ScanJob:
		s.start(now)
	case done == fileio.CloseJob: // the session stays to answer repeats
	case s.jobErr != nil:
		s.abort(now, s.jobErr)
	default:
		s.side.continueAfter(now, done)
	}
}

// finish records and logs the end of the transfer. If the session stays to answer repeats, its file
// is closed now.
func (s *session) finish(now time.Time, err error) {
	sh := s.shard
	s.prove(now, false)
	s.side.leave()
	sh.server.bandwidth.leave(s.peer.Addr(), &s.throttle)
	if sh.server.reportsEnd(err) {
		sh.endings = append(sh.endings, s.summary(now, err))
	}
	sh.busy--
	if s.job == fileio.NoJob && s.state == dallying {
		if s.side.isOpen() {
			s.submit(fileio.CloseJob)
		}
		s.dally(now)
	}
}

// dally removes a session that only answers repeats from the count of transfers, so that finished
// transfers do not keep new ones out. The number of such sessions is limited to MaxTransfers too;
// further such sessions end at once.
func (s *session) dally(now time.Time) {
	srv := s.shard.server
	s.counted = false
	srv.leave()
	srv.guard.end(s.peer.Addr())
	if srv.dallying.Add(1) > int64(srv.config.MaxTransfers) {
		s.end(now, nil)
	}
}

// end removes the session from the shard's table. A worker closes its file.
func (s *session) end(now time.Time, err error) {
	if s.state == ended {
		return
	}
	if s.state != dallying {
		s.finish(now, err)
	}
	s.side.settle(now, err)
	s.state = ended
	s.gone.Store(true)
	sh := s.shard
	delete(sh.sessions, s.peer)
	if !sh.takesRequests {
		sh.routes.release(s.peer)
	}
	sh.timers.remove(s)
	if s.life != nil {
		s.life.end()
		s.life = nil
	}
	if s.job == fileio.NoJob {
		s.release()
	}
}

// release releases an ended session for reuse, once a worker has closed its file.
func (s *session) release() {
	if s.side.isOpen() {
		s.submit(fileio.CloseJob)
		return
	}
	if srv := s.shard.server; s.counted {
		srv.leave()
		srv.guard.end(s.peer.Addr())
	} else {
		srv.dallying.Add(-1)
	}
	s.side.recycle()
}

// summary returns the Transfer of a session that ended with err, which is nil for success.
func (s *session) summary(now time.Time, err error) *Transfer {
	t := s.info
	if t == nil {
		t = s.describe()
	}
	s.info = nil
	t.Err, t.Duration, t.Disk, t.Lost = err, now.Sub(s.began), s.waits.disk, s.waits.lost
	if !s.waits.since.IsZero() {
		t.Disk += now.Sub(s.waits.since)
		t.waiting = true
	}
	if s.state != opening { // while opening, the machine has not begun
		t.Bytes, t.Agreed, t.Stats = s.side.moved(), s.machine.Agreed(), s.machine.Stats()
	}
	s.side.conclude(t)
	t.Outcome = t.outcome()
	return t
}

// describe returns the Transfer of a session that begins.
func (s *session) describe() *Transfer {
	both := new(struct { // a single allocation for the Transfer and its progress
		Transfer
		progress
	})
	t := &both.Transfer
	t.Request, t.Size, t.Began, t.progress = s.request, s.side.size(), s.began, &both.progress
	if s.state != opening { // while opening, a worker owns path
		t.Path = s.path
	}
	return t
}
