package tftp

import (
	"math"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/internal/rate"
)

// A transfer keeps to the rates of a Config by waiting: a read waits before it sends its next
// blocks, and an upload before it sends its next ACK. No packet is dropped, and no loop blocks. How
// long a transfer waits depends on its own bytes and on the bytes that other transfers have moved
// before it, so all transfers get their turn.

const (
	// maxHold is the longest time for which a packet waits to keep to a rate. Timeouts of peers are
	// a second or more (RFC 2349), so they do not give up meanwhile. A packet that would have to
	// wait longer is sent after maxHold, so the rate is exceeded.
	maxHold = 500 * time.Millisecond

	// turnTime limits how much a read sends at once: as many bytes as the rate allows in this time.
	// Then other transfers get their turn.
	turnTime = 5 * time.Millisecond
)

// A bandwidth enforces the rates of a Config: it counts the bytes that transfers have moved
// recently. The zero bandwidth limits nothing.
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
	limited bool         // a rate applies to the transfer: the bucket `all` has a rate, or own is not nil
	all     *rate.Bucket // counts the bytes of all transfers
	// own counts the bytes of all transfers with the peer's address; nil if there is no rate for
	// each address.
	own       *rate.Bucket
	users     *rate.Pair    // the pair of buckets that contains own; the pair counts the transfers that use it
	transfers *atomic.Int64 // number of transfers under way, which share the bucket all
}

// sentBucket returns the bucket of a pair that counts the data sent by the server, and
// receivedBucket the bucket that counts the data received.
func sentBucket(p *rate.Pair) *rate.Bucket     { return &p.Sent }
func receivedBucket(p *rate.Pair) *rate.Bucket { return &p.Received }

// enter returns the throttle of a transfer with a peer at the address from. way is sentBucket or
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

// leave ends a transfer's use of its address's buckets. From then on, only the rate for all
// transfers applies to it.
func (b *bandwidth) leave(from netip.Addr, t *throttle) {
	if t.own != nil {
		b.clients.Leave(from.Unmap())
	}
	t.own, t.users, t.limited = nil, nil, t.all.Rate() > 0
}

// charge counts n bytes of the transfer, and returns how long its next packet must wait as a
// result.
func (t *throttle) charge(now time.Time, n int) time.Duration {
	wait := t.all.TakeWithin(now, n, maxHold)
	if t.own != nil {
		wait = max(wait, t.own.TakeWithin(now, n, maxHold))
	}
	return wait
}

// share returns how many bytes the transfer may move in maxHold if `transfers` transfers share its
// rates. If more transfers share them at the moment, share divides by their number instead.
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
