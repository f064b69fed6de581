package tftp

import (
	"math"
	"net/netip"
	"time"

	"github.com/haul-project/haul/internal/rate"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/transfer"
)

// Transfers keep to the rates of a Config by waiting: a read before its next blocks, and an
// upload before its next ACK. No packet is dropped, and no loop waits. Each transfer waits
// for its own bytes behind those that others have moved before, so all get their turn.

const (
	// maxHold is how long a packet may wait for a rate. RFC 2349 allows timeouts of a
	// second and more, so a peer does not give up. Beyond that the rate is exceeded.
	maxHold = 500 * time.Millisecond

	// turnTime is how long a read may use a rate at once, before the turn of others.
	turnTime = 5 * time.Millisecond
)

// A bandwidth keeps what transfers have moved of late. The zero bandwidth limits nothing.
type bandwidth struct {
	all       rate.Pair
	perClient int64
	clients   rate.Accounts[netip.Addr]
}

func (b *bandwidth) set(c *Config) {
	b.all.Set(c.Bandwidth)
	b.perClient = c.BandwidthPerClient
}

// enter has a transfer share the rate of its address, if there is one.
func (b *bandwidth) enter(from netip.Addr) *rate.Pair {
	if b.perClient <= 0 {
		return nil
	}
	return b.clients.Enter(from.Unmap(), b.perClient)
}

// leave undoes enter.
func (b *bandwidth) leave(from netip.Addr, p *rate.Pair) {
	if p != nil {
		b.clients.Leave(from.Unmap())
	}
}

// charge counts n bytes of a transfer, and returns how long its next packet waits.
func (s *session) charge(now time.Time, n int) time.Duration {
	all, own := &s.shard.server.bandwidth.all, s.throttle
	wait := s.way(all).TakeWithin(now, n, maxHold)
	if own != nil {
		wait = max(wait, s.way(own).TakeWithin(now, n, maxHold))
	}
	return wait
}

func (s *session) way(p *rate.Pair) *rate.Bucket {
	if s.request.Write {
		return &p.Received
	}
	return &p.Sent
}

// isLimited reports whether a rate holds for the transfer.
func (s *session) isLimited() bool { return s.shard.server.config.Bandwidth > 0 || s.throttle != nil }

// share returns how many bytes the transfer may move in maxHold if so many transfers share
// its rates, or as many as do now if these are more.
func (s *session) share(transfers int64) int64 {
	srv := s.shard.server
	n := shareOf(s.way(&srv.bandwidth.all), max(transfers, srv.count.Load()))
	if own := s.throttle; own != nil {
		n = min(n, shareOf(s.way(own), max(transfers, own.Users())))
	}
	return n
}

func shareOf(b *rate.Bucket, n int64) int64 {
	if r := b.Rate(); r > 0 {
		return r / int64(time.Second/maxHold) / n
	}
	return math.MaxInt64
}

// atOnce returns how many blocks of a read may leave at once: what its rates move in
// turnTime, or less if that many transfers share them, and one at least.
func (s *session) atOnce(run transfer.Run) int {
	n := s.share(int64(maxHold/turnTime)) / int64(s.sender.BlockSize())
	return int(min(int64(run.Blocks), max(1, n)))
}

// boundByRate lowers what is agreed on, so that one block, and of an upload one window,
// takes no longer than maxHold at the transfer's share.
func (s *session) boundByRate(agreed *transfer.Options) {
	if s.request.Write && agreed.Window > 1 {
		block := int64(max(agreed.BlockSize, transfer.DefaultBlockSize))
		agreed.Window = int(min(int64(agreed.Window), max(1, s.share(1)/block)))
	}
}

// holdBlocks has a read wait until what it sent has had its time.
func (s *session) holdBlocks(now time.Time, sent int64) {
	if s.isLimited() {
		s.sender.Hold(now.Add(s.charge(now, int(sent))))
	}
}

// holdACK has an upload wait until what has come has had its time.
func (s *session) holdACK(now time.Time, received int) {
	if !s.isLimited() {
		return
	}
	if until := now.Add(s.charge(now, received)); until.After(s.heldUntil) {
		s.heldUntil = until
	}
}

// confirm lets the ACK of an upload go, or has it wait for a rate.
func (s *session) confirm(now time.Time) {
	if s.heldUntil.After(now) {
		s.shard.timers.set(s, s.heldUntil)
		return
	}
	s.heldUntil = time.Time{}
	s.receiver.Stored(now)
}

// resume lets the ACK go that has waited for a rate.
func (s *session) resume(now time.Time) {
	switch {
	case s.heldUntil.IsZero():
	case s.state == running:
		s.acknowledge(now)
	case s.state == storing && s.job == fileio.NoJob: // it is published
		s.confirm(now)
	}
}
