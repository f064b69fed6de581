package tftp

import (
	"net/netip"
	"sync"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// Bounds of one shard.
const (
	// maxInbox is how many requests may wait for the loop. What comes beyond is
	// dropped, as by a full socket buffer: clients ask again.
	maxInbox = 1024

	outboxMessages = 64
	outboxBytes    = 1 << 20

	// ringBudget is what all uploads of a shard may gather in memory, in bytes.
	ringBudget = 64 << 20
	minRing    = 8 << 10  // of one upload
	fairRing   = 64 << 10 // the same, while half of the budget is left: fewer, larger writes

	// maxWindowBytes bounds the window of one transfer: more is of no use to
	// any link that TFTP is used on, and of much to who forges requests.
	maxWindowBytes = 2 << 20

	ringShare = 8 // one upload gets this part of what is left, at most

	// maxSpare is how many sessions not in use keep their buffers for the next
	// transfer: what a burst took is given back.
	maxSpare = 256

	// maxStrayReplies is how many datagrams a second that belong to no transfer
	// are answered; the rest is only counted.
	maxStrayReplies = 100
)

// A shard is one loop with the transfers whose peers fall to it. It has one
// socket for all of them, and tells them apart by the peer's address.
type shard struct {
	server *Listener
	conn   socket

	// Everything here belongs to the loop.
	in       []udp.Message
	out      *outbox
	sessions map[netip.AddrPort]*session
	timers   timers
	dirty    []*session
	free     []*session
	inTurn   inbox // what came since the turn before
	rings    int   // bytes left of ringBudget
	busy     int   // sessions that are not dallying
	jobs     int   // sessions that a worker has
	strays   struct {
		second  int64
		replies int
	}
	stopping bool
	halting  bool

	mu    sync.Mutex
	inbox inbox
}

// An inbox holds what other goroutines hand to a loop.
type inbox struct {
	requests []request
	worked   []*session // back from a worker
	stop     bool       // take no new requests, end when all are done
	halt     bool       // end now
}

// A request is a request packet and where it came from.
type request struct {
	transfer.Request
	peer  netip.AddrPort
	local netip.Addr
}

func newShard(l *Listener, conn socket) *shard {
	limits := conn.Limits()
	sh := &shard{
		server:   l,
		conn:     conn,
		in:       make([]udp.Message, limits.Messages),
		out:      newOutbox(conn, outboxMessages, outboxBytes),
		sessions: make(map[netip.AddrPort]*session),
		rings:    ringBudget,
	}
	size := max(limits.Datagram, transfer.HeaderSize+transfer.MaxBlockSize)
	for i := range sh.in {
		sh.in[i].Data = make([]byte, size)
	}
	return sh
}

// run is the loop. It returns when the shard has been stopped and is done, or
// its socket fails.
func (sh *shard) run() error {
	defer func() { sh.server.unsent.Add(sh.out.lost) }()
	for {
		n, err := sh.conn.Read(sh.in, sh.timers.next())
		if err != nil {
			sh.haltAll(time.Now())
			return err
		}
		if sh.turn(time.Now(), n) {
			return nil
		}
	}
}

// turn takes the first n messages of sh.in and all else that is due, and sends
// what follows from it. It reports whether the shard has been stopped and is done.
func (sh *shard) turn(now time.Time, n int) (over bool) {
	for i := range sh.in[:n] {
		sh.receive(now, &sh.in[i])
	}
	sh.takeInbox(now)
	for s := sh.timers.pop(now); s != nil; s = sh.timers.pop(now) {
		s.expire(now)
		sh.touch(s)
	}
	for _, s := range sh.dirty {
		s.dirty = false
		s.drive(now)
	}
	sh.dirty = sh.dirty[:0]
	sh.out.flush()
	return sh.stopping && sh.busy == 0 && sh.cleared(now)
}

// touch has a session driven at the end of the turn.
func (sh *shard) touch(s *session) {
	if !s.dirty {
		s.dirty = true
		sh.dirty = append(sh.dirty, s)
	}
}

// receive hands a message to the session it belongs to.
func (sh *shard) receive(now time.Time, m *udp.Message) {
	s := sh.sessions[m.Peer]
	if s == nil {
		sh.stray(now, m)
		return
	}
	for b := range m.Datagrams() {
		s.handle(now, b)
	}
	sh.touch(s)
}

// stray answers a datagram that belongs to no transfer (RFC 1350 §4): it may
// be all that is left of one, so the peer should know. An ERROR is never
// answered, lest two hosts go on for ever.
func (sh *shard) stray(now time.Time, m *udp.Message) {
	sh.server.strays.Add(1)
	if op := transfer.OpcodeOf(m.Data); op == transfer.ErrorPacket || op == 0 {
		return
	}
	if second := now.Unix(); second != sh.strays.second {
		sh.strays.second, sh.strays.replies = second, 0
	}
	if sh.strays.replies++; sh.strays.replies <= maxStrayReplies {
		sh.out.fault(m.Peer, m.Local, transfer.UnknownID, "no such transfer here")
	}
}

// push hands a request to the loop. It returns false if the inbox is full.
func (sh *shard) push(q request) bool {
	sh.mu.Lock()
	ok := len(sh.inbox.requests) < maxInbox && !sh.inbox.stop
	if ok {
		sh.inbox.requests = append(sh.inbox.requests, q)
	}
	sh.mu.Unlock()
	if ok {
		sh.conn.Wake()
	}
	return ok
}

// workDone hands a session back from a worker.
func (sh *shard) workDone(s *session) {
	sh.mu.Lock()
	sh.inbox.worked = append(sh.inbox.worked, s)
	sh.mu.Unlock()
	sh.conn.Wake()
}

// stop asks the loop to end: when all transfers have, or at once.
func (sh *shard) stop(halt bool) {
	sh.mu.Lock()
	sh.inbox.stop = true
	sh.inbox.halt = sh.inbox.halt || halt
	sh.mu.Unlock()
	sh.conn.Wake()
}

// takeInbox sees to what other goroutines have handed over.
func (sh *shard) takeInbox(now time.Time) {
	sh.mu.Lock()
	sh.inbox, sh.inTurn = inbox{
		requests: sh.inTurn.requests[:0],
		worked:   sh.inTurn.worked[:0],
		stop:     sh.inbox.stop,
		halt:     sh.inbox.halt,
	}, sh.inbox
	sh.mu.Unlock()

	for _, s := range sh.inTurn.worked {
		sh.jobs--
		sh.touch(s)
		s.finished(now)
	}
	for _, q := range sh.inTurn.requests {
		sh.accept(now, q)
	}
	clear(sh.inTurn.requests)
	clear(sh.inTurn.worked)
	if sh.stopping = sh.inTurn.stop; sh.inTurn.halt && !sh.halting {
		sh.halting = true
		sh.haltAll(now)
	}
}

// accept begins a transfer, unless it has begun already.
func (sh *shard) accept(now time.Time, q request) {
	if s := sh.sessions[q.peer]; s != nil {
		// The same request within a second is a repeat, whether the network or
		// an impatient ROM made it. Later, or another, it is a peer that began
		// anew: some use the same port after each reset.
		if s.same(q) && s.state != dallying && (!s.heard() || now.Sub(s.began) < time.Second) {
			s.repeat(now)
			sh.touch(s)
			return
		}
		sh.end(now, s, errReplaced)
	}
	err := error(nil)
	if sh.stopping {
		err = errStopping
	} else if !sh.server.admit() {
		err = errBusy
	}
	if err != nil {
		code, msg := faultFor(err)
		sh.out.fault(q.peer, q.local, code, msg)
		sh.server.refused.Add(1)
		return
	}
	s := sh.take()
	s.peer, s.local, s.request, s.began = q.peer, q.local, q.Request, now
	s.state, s.counted = opening, true
	sh.sessions[q.peer] = s
	sh.busy++
	sh.submit(s, openJob)
}

// take returns a session ready for use.
func (sh *shard) take() *session {
	if n := len(sh.free); n > 0 {
		s := sh.free[n-1]
		sh.free = sh.free[:n-1]
		return s
	}
	return &session{shard: sh}
}

// submit gives a session to a worker. The queue has room for every session
// there can be, so this never waits.
func (sh *shard) submit(s *session, j job) {
	s.job = j
	sh.jobs++
	if j == scanJob {
		sh.server.scans <- s
	} else {
		sh.server.queue <- s
	}
}

// finish notes the end of a transfer and has it logged. One that stays to
// answer repeats is closed.
func (sh *shard) finish(now time.Time, s *session, err error) {
	sh.server.log(s.summary(now, err))
	sh.busy--
	if s.job == noJob && s.state == dallying {
		sh.submit(s, closeJob)
		sh.rest(now, s)
	}
}

// end takes a session off the table. Its files are closed by a worker.
func (sh *shard) end(now time.Time, s *session, err error) {
	if s.state == ended {
		return
	}
	if s.state != dallying {
		sh.finish(now, s, err)
	}
	s.state = ended
	s.gone.Store(true)
	delete(sh.sessions, s.peer)
	sh.timers.remove(s)
	sh.rings += s.ringCost
	s.ringCost = 0
	if s.job == noJob {
		sh.release(s)
	}
}

// rest takes a session that only answers repeats out of the count of
// transfers, lest those that are over keep new ones out. There may be as many
// of these again; beyond that one is not kept.
func (sh *shard) rest(now time.Time, s *session) {
	s.counted = false
	sh.server.leave()
	if sh.server.resting.Add(1) > int64(sh.server.MaxTransfers) {
		sh.end(now, s, nil)
	}
}

// release takes back a session that has ended, once a worker has closed it.
func (sh *shard) release(s *session) {
	if s.file != nil || s.upload != nil {
		sh.submit(s, closeJob)
		return
	}
	ring, buf := s.intake.ring, s.fetch.buf
	if cap(ring) > minRing || len(sh.free) >= maxSpare {
		ring = nil
	}
	if cap(buf) > minFetch || len(sh.free) >= maxSpare {
		buf = nil
	}
	if s.counted {
		sh.server.leave()
	} else {
		sh.server.resting.Add(-1)
	}
	dirty := s.dirty
	*s = session{shard: sh, sender: s.sender, receiver: s.receiver, dirty: dirty}
	s.intake.ring, s.fetch.buf = ring, buf
	s.state = ended
	sh.free = append(sh.free, s)
}

// mostBlocks returns the largest window for the block size agreed on. For an
// upload nobody gets more than a share of the memory that is left, so that
// those who ask for much leave room for others.
func (sh *shard) mostBlocks(agreed transfer.Options, write bool) int {
	most := maxWindowBytes
	if write {
		most = min(most, sh.rings/ringShare/2)
	}
	return max(1, most/max(agreed.BlockSize, transfer.DefaultBlockSize))
}

// grantRing gives an upload its memory.
func (sh *shard) grantRing(s *session) error {
	least := minRing
	if sh.rings > ringBudget/2 {
		least = fairRing
	}
	size := max(2*max(1, s.receiver.Agreed().Window)*s.receiver.BlockSize(), least)
	if size > sh.rings {
		return errBusy
	}
	sh.rings -= size
	s.ringCost = size
	if cap(s.intake.ring) < size {
		s.intake.ring = make([]byte, size)
	}
	s.intake.reset(s.intake.ring[:size], sh.server.maxUpload(), s.request.Mode)
	return nil
}

// dropRing takes the memory of an upload that is published, and has no job out.
func (sh *shard) dropRing(s *session) {
	sh.rings += s.ringCost
	s.ringCost = 0
	if cap(s.intake.ring) > minRing {
		s.intake.ring = nil
	}
}

// haltAll ends all transfers at once.
func (sh *shard) haltAll(now time.Time) {
	for _, s := range sh.sessions {
		if s.state != dallying {
			s.abort(now, errStopping)
		}
		if s.state != ended {
			s.drive(now) // the ERROR packet
		}
		sh.end(now, s, errStopping)
	}
	sh.out.flush()
}

// cleared ends the transfers that only answer repeats, and reports whether
// all files are closed.
func (sh *shard) cleared(now time.Time) bool {
	for _, s := range sh.sessions {
		sh.end(now, s, nil)
	}
	return sh.jobs == 0
}

// bury closes what workers handed back after the loop had ended, as it does
// early when its socket fails.
func (sh *shard) bury() {
	for _, s := range sh.inbox.worked {
		s.job = closeJob
		s.work()
	}
}
