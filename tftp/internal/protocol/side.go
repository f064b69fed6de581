package protocol

import (
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// A side holds the state that a Sender and a Receiver have in common.
type side struct {
	answers bool // this is a server's side, which answers a request
	heard   bool // the peer has sent something valid
	reply   bool // the OACK or the request is due
	firsts  int  // how many times the first packet was sent

	request transfer.Request // the request that this side sends, if it is a client's side
	agreed  transfer.Options
	block   int64 // block size in bytes
	window  int64 // window size in blocks

	timer    timer
	deadline time.Time
	lastWord time.Time // when the peer last showed that it is alive
	progress progressClock
	tries    int // number of timeouts since the peer was last heard

	stats transfer.Stats
	outcome
}

// use applies agreed options.
func (s *side) use(o transfer.Options) {
	s.agreed = o
	s.block = int64(blockSizeOf(o))
	s.window = int64(windowOf(o))
	s.timer.limit(timeoutOf(o))
}

// excusePause restarts the progress clock when the peer is heard for the first time, and after a
// pause of this process. A long silence with fewer than minTries timeouts shows such a pause:
// without it, the timer would have expired more often.
func (s *side) excusePause(now time.Time) {
	if !s.heard || s.tries < minTries && now.Sub(s.lastWord) >= silence(timeoutOf(s.agreed)) {
		s.progress.start(now)
	}
}

// endIfStalled ends a transfer that has made too little progress, and reports whether it did.
func (s *side) endIfStalled(now time.Time) bool {
	if !s.heard || !s.progress.stalled(now) {
		return false
	}
	s.abort(transfer.NotDefined, transfer.ErrStalled.Error(), transfer.ErrStalled)
	return true
}

// Abort ends the transfer with an ERROR packet to the peer. Done then reports err, or if err is
// nil, the *transfer.Error that was sent.
func (s *side) Abort(code transfer.ErrorCode, msg string, err error) { s.abort(code, msg, err) }

// Done reports whether the transfer has ended, and why if it failed: a [*transfer.Error] from or to
// the peer, [transfer.ErrSilent], [transfer.ErrStalled], or the error given to Abort. A Receiver
// that succeeded keeps answering until its Deadline is zero.
func (s *side) Done() (bool, error) { return s.done, s.err }

// Heard reports whether the peer has sent anything valid.
func (s *side) Heard() bool { return s.heard }

// Agreed returns the options in force. An option that was not agreed on is zero.
func (s *side) Agreed() transfer.Options { return s.agreed }

// BlockSize returns the number of data bytes in a full block.
func (s *side) BlockSize() int { return int(s.block) }

// Stats returns the counts so far.
func (s *side) Stats() transfer.Stats {
	st := s.stats
	st.RTT = s.timer.srtt
	return st
}

// An outcome says how a machine ended, and holds the ERROR packet that it still has to send.
type outcome struct {
	done         bool
	err          error
	pendingError transfer.Error
	hasError     bool
	// misdirected is the number of copies of the request that had been sent when an ERROR about
	// another transfer arrived; 0 if no such ERROR has arrived.
	misdirected int
}

// fail ends the machine without a packet to the peer.
func (o *outcome) fail(err error) {
	if !o.done {
		o.done, o.err = true, err
	}
}

// refused ends the machine because of an ERROR from the peer. It first ignores ERROR 5 (unknown
// transfer ID) as long as the request is not answered. Before an answer no transfer ID exists that
// could be unknown, so such an ERROR concerns an earlier transfer from the same port, and answers a
// late duplicate of one of its packets. The ERROR counts only if the peer sends it again after a
// later copy of the request. The argument request is the number of copies sent so far, or 0 once a
// copy is answered.
func (o *outcome) refused(request int, e *transfer.Error, st *transfer.Stats) {
	if request > 0 && e.Code == transfer.UnknownID && (o.misdirected == 0 || o.misdirected == request) {
		o.misdirected = request
		st.Strays++
		return
	}
	o.fail(e)
}

// abort ends the machine and queues an ERROR packet.
func (o *outcome) abort(code transfer.ErrorCode, msg string, err error) {
	if o.done {
		return
	}
	o.pendingError, o.hasError = transfer.Error{Code: code, Message: msg}, true
	if err == nil {
		err = &transfer.Error{Code: code, Message: msg}
	}
	o.fail(err)
}

// appendError appends the queued ERROR packet, once.
func (o *outcome) appendError(b []byte) []byte {
	if !o.hasError {
		return b
	}
	o.hasError = false
	return AppendError(b, o.pendingError.Code, o.pendingError.Message)
}

// silence returns how long a peer may be silent under the given timeout.
func silence(timeout time.Duration) time.Duration {
	return max(maxSilence, maxSilentTimeouts*min(timeout, longestWait))
}

// A progressClock enforces the lowest allowed average rate. It shows the time at which a transfer
// of exactly that rate would have got as far as this one. It never shows a future time, so that a
// transfer that was fast before may not stall for longer than others.
type progressClock struct{ at time.Time }

func (c *progressClock) start(now time.Time) { c.at = now }

// moved records that blocks of the given size in bytes were received or acknowledged.
func (c *progressClock) moved(now time.Time, blocks, bytes int64) {
	each := slowestBlock * time.Duration(max(bytes, transfer.DefaultBlockSize)) / transfer.DefaultBlockSize
	c.exclude(now, time.Duration(blocks)*each)
}

// exclude moves the clock forward by a time for which the peer is not responsible.
func (c *progressClock) exclude(now time.Time, d time.Duration) {
	if c.at = c.at.Add(d); c.at.After(now) {
		c.at = now
	}
}

func (c *progressClock) stalled(now time.Time) bool { return now.Sub(c.at) >= maxStall }
