package transfer

const (
	// cautiousRepeats is how many bytes a cautious Sender sends again before the
	// peer has acknowledged data, or one block. Each packet of the peer allows
	// leastPerWord more, or a part of a block, so a peer that speaks always gets
	// an answer.
	cautiousRepeats = 12 << 10
	leastPerWord    = 2 << 10
	wordsPerBlock   = 8
)

// caution bounds what a Sender sends before the peer has acknowledged data. The
// address of a request may be forged, and so may the ACK 0 that answers an OACK:
// the server's ports are no secret.
//
// A window larger than the bound would leave a peer waiting for its end. So the
// end of the first window goes out behind the first blocks: to a receiver it
// shows a gap, which is acknowledged at once (RFC 7440 §4). Blocks in between
// follow when that acknowledgement has come.
type caution struct {
	on      bool
	flight  int64 // the first blocks of the window, which leave before its end; 0 for all
	repeats int64 // bytes that may still be sent again

	// These were left out, and follow when the peer is proven: none if
	// skipped is above until.
	skipped, until int64
}

// Cautious has s send at most so many bytes of data, but no less than two
// blocks, until the peer has acknowledged data. It sends little of that again:
// for a server that does not know whether the request's address is forged. It
// follows Answer.
func (s *Sender) Cautious(bytes int64) {
	s.caution = caution{on: true, repeats: max(s.block, cautiousRepeats)}
	s.recovery.spared = true // the whole window is not sent again
	if window := min(s.window, s.total); bytes < window*s.block && window > 2 {
		s.caution.flight = max(1, bytes/s.block-1)
	}
}

// first returns which of the blocks from next to last, none of them sent
// before, leave first.
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

// skips reports whether blocks in the midst of the window are not sent yet.
func (c *caution) skips() bool { return c.flight > 0 || c.skipped < c.until }

// forbids reports whether a block of so many bytes must not be sent again.
func (c *caution) forbids(bytes int64) bool { return c.on && c.repeats < bytes }

// sent notes that n blocks of so many bytes, before the end of what was sent, have
// left, and returns how many of them for the first time.
func (c *caution) sent(first, n, bytes int64) int64 {
	c.repeats -= bytes
	if first+n <= c.skipped || first > c.until {
		return 0
	}
	fresh := min(first+n-1, c.until) - max(first, c.skipped) + 1
	c.skipped = max(c.skipped, first+n)
	return fresh
}

// spoke notes that the peer has said something, but acknowledged nothing.
func (c *caution) spoke(block int64) { c.repeats += max(leastPerWord, block/wordsPerBlock) }
