package tftp

import (
	"net/netip"
	"time"

	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// accept begins the transfer that q requests. If that transfer has already begun, q is a repeated
// request, and the transfer answers it.
func (sh *shard) accept(now time.Time, q Request) {
	guard := &sh.server.guard
	from := q.Peer.Addr()
	if err := guard.request(now, from); err != nil {
		sh.refuse(now, q, err)
		return
	}
	if s := sh.sessions[q.Peer]; s != nil {
		s.endIfDone(now)
	}
	if s := sh.sessions[q.Peer]; s != nil {
		switch {
		case s.repeated(now, q):
			s.repeat(now)
			sh.schedule(s)
			return
		case s.side.delivered():
			s.end(now, nil)
		default:
			s.end(now, errReplaced)
		}
	}
	if sh.ending == retiring {
		// The peer will repeat its request, and then the process that now has the port answers it.
		sh.count.turnAway(reasonOf(errStopping))
		return
	}
	quiet, err := sh.admit(now, from)
	if err != nil {
		sh.refuse(now, q, err)
		return
	}
	sh.busy++
	s := sh.take(now, q)
	s.quiet = quiet
	sh.unproven.add(s)
	sh.sessions[q.Peer] = s
	s.submit(fileio.OpenJob)
}

// admit counts a new transfer from an address, or returns an error that says why it is refused. For
// the result quiet, see guard.begin.
func (sh *shard) admit(now time.Time, from netip.Addr) (quiet bool, err error) {
	if sh.ending != serving {
		return false, errStopping
	}
	if !sh.server.admit() {
		s := sh.unproven.oldest(now)
		if s == nil || !sh.server.displace() {
			return false, errBusy
		}
		s.end(now, errCrowded)
	} else if sh.server.files.Full() {
		// Unless the requested file is already open, opening it needs a free place among the open
		// files. So end a transfer whose request may be forged, which closes its file.
		if s := sh.unproven.oldest(now); s != nil {
			s.end(now, errCrowded)
		}
	}
	if quiet, err = sh.server.guard.begin(now, from); err != nil {
		sh.server.leave()
	}
	return quiet, err
}

// refuse refuses a request. It answers with an ERROR and logs the refusal, at most maxRefused times
// a second for each address.
func (sh *shard) refuse(now time.Time, q Request, err error) {
	sh.count.turnAway(reasonOf(err))
	if !sh.server.guard.mayRefuse(now, q.Peer.Addr()) {
		return
	}
	code, msg := errorPacketFor(err)
	sh.out.AddError(q.Peer, q.Local.Addr(), code, msg)
	sh.endings = append(sh.endings, &Transfer{Request: q, Size: -1, Began: now, Err: err, Outcome: Refused})
}

func isRequest(b []byte) bool {
	op := transfer.OpcodeOf(b)
	return op == transfer.ReadRequest || op == transfer.WriteRequest
}

// receiveRequest handles a request that arrived at the shard's own port.
func (sh *shard) receiveRequest(now time.Time, m *udp.Message, b []byte) {
	q, fault, ok := sh.server.config.parseRequest(m, b, sh.conn.LocalAddr())
	switch {
	case ok && m.Broadcast && sh.broadcastShard != nil:
		if sh.forwardsBroadcast && !sh.broadcastShard.push(q) {
			sh.count.turnAway(Overload)
		}
	case ok:
		sh.accept(now, q)
	case fault != nil && sh.errors.Allow(now, maxErrors):
		sh.out.AddError(m.Peer, m.Local, fault.Code, fault.Message)
		fallthrough
	default:
		sh.count.turnAway(Malformed)
	}
}

// take returns a session that is prepared for a request.
func (sh *shard) take(now time.Time, q Request) *session {
	if q.Write {
		w := sh.newWriting()
		w.prepare(now, q)
		return &w.session
	}
	r := sh.newReading()
	r.prepare(now, q)
	return &r.session
}

func (sh *shard) newReading() *reading {
	r := sh.readings.take()
	r.shard = sh
	return r
}

func (sh *shard) newWriting() *writing {
	w := sh.writings.take()
	w.shard = sh
	return w
}
