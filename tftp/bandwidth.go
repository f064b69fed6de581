package tftp

import (
	"math"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/internal/rate"
)

// Transfers keep to the rates of a Config by waiting: a read waits before its next blocks, and an
// upload before its next ACK. No packet is dropped, and no loop waits. A transfer's wait covers its
// own bytes and those that others have moved before it, so all get their turn.

const (
	// maxHold is how long a packet may wait for a rate. RFC 2349 allows timeouts of a second and
	// more, so peers do not give up meanwhile. Where a longer wait would be needed, the rate is
	// exceeded.
	maxHold = 500 * time.Millisecond

	// A read may send as much at once as its rate allows in turnTime. Then others get their turn.
	turnTime = 5 * time.Millisecond
)

// A bandwidth counts the bytes that transfers have moved recently. The zero bandwidth limits
// nothing.
type bandwidth struct {
	all       rate.Pair
	perClient int64
	clients   rate.Accounts[netip.Addr]
}

func (b *bandwidth) set(c *Config) {
	b.all.Set(c.Bandwidth)
	b.perClient = c.BandwidthPerClient
}

// A throttle makes one transfer keep to the rates.
type throttle struct {
	limited   bool          // a rate applies to the transfer
	all       *rate.Bucket  // bucket of all transfers
	own       *rate.Bucket  // bucket of all transfers with the peer's address; nil if no rate per address is set
	users     *rate.Pair    // the pair that own is part of; it counts its users
	transfers *atomic.Int64 // number of transfers that share the bucket all
}

// sentBucket and receivedBucket return the bucket for the direction in which a transfer moves its
// data.
func sentBucket(p *rate.Pair) *rate.Bucket     { return &p.Sent }
func receivedBucket(p *rate.Pair) *rate.Bucket { return &p.Received }

// enter returns the throttle of a transfer with the address from. The function way is sentBucket or
// receivedBucket, and count is the number of all transfers under way.
func (b *bandwidth) enter(from netip.Addr, way func(*rate.Pair) *rate.Bucket, count *atomic.Int64) throttle {
	t := throttle{all: way(&b.all), transfers: count}
	if b.perClient > 0 {
		t.users = b.clients.Enter(from.Unmap(), b.perClient)
		t.own = way(t.users)
	}
	t.limited = t.all.Rate() > 0 || t.own != nil
	return t
}

// leave undoes enter.
func (b *bandwidth) leave(from netip.Addr, t *throttle) {
	if t.own != nil {
		b.clients.Leave(from.Unmap())
	}
	t.own, t.users, t.limited = nil, nil, t.all.Rate() > 0
}

// charge counts n bytes of the transfer, and returns how long its next packet must wait.
func (t *throttle) charge(now time.Time, n int) time.Duration {
	wait := t.all.TakeWithin(now, n, maxHold)
	if t.own != nil {
		wait = max(wait, t.own.TakeWithin(now, n, maxHold))
	}
	return wait
}

// share returns how many bytes the transfer may move in maxHold if the given number of transfers
// share its rates, or the current number if that is higher.
func (t *throttle) share(transfers int64) int64 {
	n := shareOf(t.all, max(transfers, t.transfers.Load()))
	if t.own != nil {
		n = min(n, shareOf(t.own, max(transfers, t.users.Users())))
	}
	return n
}

func shareOf(b *rate.Bucket, n int64) int64 {
	if r := b.Rate(); r > 0 {
		return r / int64(time.Second/maxHold) / n
	}
	return math.MaxInt64
}
