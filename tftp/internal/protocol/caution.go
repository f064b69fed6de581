package protocol

const (
	// cautiousRepeats is how many bytes a cautious Sender may send again before the peer has
	// acknowledged data, but at least one block. Each packet from the peer allows leastPerWord more
	// bytes, or 1/wordsPerBlock of a block if that is more. So a peer that keeps sending packets
	// always gets an answer.
	cautiousRepeats = 12 << 10
	leastPerWord    = 2 << 10
	wordsPerBlock   = 8
)

// The address of a request may be forged, and so may the ACK 0 that answers an OACK, since anyone
// can know the server's ports. So caution bounds how much a Sender sends before the peer has
// acknowledged data.
//
// If the first window is larger than the bound, the peer would wait in vain for the end of the
// window. So the last block of that window is sent right after its first blocks. The receiver sees
// a gap and acknowledges the blocks before it at once (RFC 7440 §4). The blocks in between follow
// after that acknowledgement.
type caution struct {
	on      bool
	flight  int64 // how many blocks of the first window are sent before its last block; 0 if no block is left out
	repeats int64 // bytes that may still be sent again

	// The blocks from `skipped` to `until` were left out. They follow once the peer is proven to be
	// genuine. If `skipped` is above `until`, no block was left out.
	skipped, until int64
}

// Cautious limits how much s sends until the peer has acknowledged data. It allows the given number
// of bytes of data, but at least two blocks, and only a few repeated blocks. It is for a server
// that does not know whether the request's address is forged. Call it after Answer.
func (s *Sender) Cautious(bytes int64) {
	s.caution = caution{on: true, repeats: max(s.block, cautiousRepeats)}
	s.recovery.spared = true // so that the whole window is not sent again
	if window := min(s.window, s.total); bytes < window*s.block && window > 2 {
		s.caution.flight = max(1, bytes/s.block-1)
	}
}

// first returns the blocks to send now, out of the blocks from `next` to `last`, none of which was
// sent before.
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

// skips reports whether blocks in the middle of the window have not been sent yet.
func (c *caution) skips() bool { return c.flight > 0 || c.skipped < c.until }

// forbids reports whether a block of the given size must not be sent again.
func (c *caution) forbids(bytes int64) bool { return c.on && c.repeats < bytes }

// sent records that n blocks from first on, with the given total of bytes, were sent after a higher
// block. It returns how many of them were sent for the first time, because they had been left out
// before.
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
