package protocol

const (
	// cautiousRepeats is how many bytes, but at least one block, a cautious Sender sends again
	// before the peer has acknowledged data. Each packet from the peer allows leastPerWord more, or
	// a part of a block, so a peer that sends packets always gets an answer.
	cautiousRepeats = 12 << 10
	leastPerWord    = 2 << 10
	wordsPerBlock   = 8
)

// caution bounds how much a Sender sends before the peer has acknowledged data. The address of a
// request may be forged, and so may the ACK 0 that answers an OACK: the server's ports are no
// secret.
//
// A peer would wait for the end of a window that is larger than the bound. So the end of the first
// window is sent right after its first blocks. A receiver sees a gap, and acknowledges it at once
// (RFC 7440 §4). The blocks in between follow after that acknowledgement.
type caution struct {
	on      bool
	flight  int64 // the first blocks of the window, sent before its end; 0 for all
	repeats int64 // bytes that may still be sent again

	// These blocks were left out, and follow once the peer is proven to be genuine. If skipped is
	// above until, no block was left out.
	skipped, until int64
}

// Cautious limits how much s sends until the peer has acknowledged data: the given number of bytes
// of data, but at least two blocks, and few of them again. It is for a server that does not know
// whether the request's address is forged. Call it after Answer.
func (s *Sender) Cautious(bytes int64) {
	s.caution = caution{on: true, repeats: max(s.block, cautiousRepeats)}
	s.recovery.spared = true // the whole window is not sent again
	if window := min(s.window, s.total); bytes < window*s.block && window > 2 {
		s.caution.flight = max(1, bytes/s.block-1)
	}
}

// first returns which blocks to send first out of next to last, none of which was sent before.
func (c *caution) first(next, last int64) (from, to int64) {
	switch {
	case c.flight == 0:
		return next, last
	case next <= c.flight:
		return next, c.flight
	case next <= last:
		return last, last
	}
	return next, last
}

// skips reports whether blocks in the middle of the window are not sent yet.
func (c *caution) skips() bool { return c.flight > 0 || c.skipped < c.until }

// forbids reports whether a block of that many bytes must not be sent again.
func (c *caution) forbids(bytes int64) bool { return c.on && c.repeats < bytes }

// sent records that n blocks with the given bytes in all, before the end of what was already sent,
// were sent. It returns how many of them were sent for the first time.
func (c *caution) sent(first, n, bytes int64) int64 {
	c.repeats -= bytes
	if first+n <= c.skipped || first > c.until {
		return 0
	}
	fresh := min(first+n-1, c.until) - max(first, c.skipped) + 1
	c.skipped = max(c.skipped, first+n)
	return fresh
}

// spoke records that the peer has sent a packet without acknowledging anything new.
func (c *caution) spoke(block int64) { c.repeats += max(leastPerWord, block/wordsPerBlock) }
