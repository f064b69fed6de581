package transfer

import "time"

// Retransmission timer (RFC 6298), with two deviations noted in
// docs/tftp.md: the floor is milliseconds instead of 1 s, since a window
// that waits a second for each lost packet is what makes TFTP slow; and the
// ceiling is the negotiated timeout, or 3 s if that is longer and the peer does
// not answer. A read request is repeated sooner than the rest.
const (
	initialRTO = time.Second     // RFC 6298 §2.1
	maxRTO     = 3 * time.Second // where no timeout was negotiated
	clockGrain = time.Millisecond

	// readRTO is the first wait for the answer to a read request, doubled each
	// time. A server takes the repeat for what it is, or answers twice, of which
	// the client keeps one answer: that is cheaper than a second for each request
	// that is lost. It is longer than repeatGap.
	readRTO = 250 * time.Millisecond

	// writeRTO is that for a write request. Many a server has a process empty the
	// file for each that comes, and so loses what the first has written already:
	// one that was only slow to begin should not be asked twice.
	writeRTO = initialRTO

	minTrip = time.Microsecond

	// minRTO is the floor. A timeout that was hasty has twice as much added to
	// the round trips to come, at the least; and each further one twice of that,
	// up to cautiousRTO: round trips of a busy host jitter by milliseconds,
	// however steady and however long they seem. calmTrips measured without
	// another halve it again.
	minRTO    = 2 * time.Millisecond
	calmTrips = 1024

	// cautiousRTO is added to a round trip, at the least, where a timeout that
	// was not needed costs more than one packet: a whole window sent again, or
	// an ACK that a sender with the Sorcerer's bug answers by one; and where the
	// answer waits for a disk, as that to the last block does.
	cautiousRTO = 10 * time.Millisecond

	// A trip of some milliseconds may be all waiting in a busy host, whose pauses
	// are as long, while the variance forgets them within a dozen trips. So the
	// floor is busyTrips of them, up to cautiousRTO.
	busyTrips = 2

	// windowRTO is added until a whole window has been measured: the first
	// round trip carries one small packet, and says nothing of how long a
	// window takes on a slow link.
	windowRTO = 200 * time.Millisecond
)

// A timer estimates round trips and says how long to wait.
type timer struct {
	srtt, rttvar time.Duration
	least        time.Duration // shortest round trip seen
	ceiling      time.Duration
	backoff      uint // doublings since the last measurement
	sampled      bool
	margin       time.Duration // least time added to a trip; set by hasty timeouts
	calm         int           // trips measured since the margin was set
}

// limit sets the longest wait; zero stands for the default.
func (t *timer) limit(timeout time.Duration) {
	t.ceiling = min(timeout, longestWait)
	if timeout <= 0 {
		t.ceiling = maxRTO
	}
}

// sample notes a measured round trip of a packet that was sent only once
// (Karn's rule is the caller's), and ends the backoff. It takes no trip for
// longer than any timeout, nor for instant, even if the clock says so: what
// happens once a round trip must not happen without end.
func (t *timer) sample(rtt time.Duration) {
	rtt = min(max(rtt, minTrip), maxTimeout)
	t.backoff = 0
	if t.calm++; t.calm >= calmTrips {
		t.margin, t.calm = t.margin/2, 0
	}
	if !t.sampled {
		t.sampled = true
		t.srtt, t.rttvar, t.least = rtt, rtt/2, rtt
		return
	}
	t.least = min(t.least, rtt)
	t.rttvar += ((t.srtt - rtt).Abs() - t.rttvar) / 4
	t.srtt += (rtt - t.srtt) / 8
}

// rto returns the retransmission timeout: a round trip, and the given margin at
// the least.
func (t *timer) rto(margin time.Duration) time.Duration {
	d := initialRTO
	if t.sampled {
		d = max(t.srtt+max(clockGrain, 4*t.rttvar, t.margin, margin), minRTO, min(busyTrips*t.srtt, cautiousRTO))
	}
	return t.backedOff(d)
}

// backedOff returns a wait within the ceiling, doubled as often as it has been in
// vain. That may go beyond a short timeout: a peer that asked for 10 ms and is
// gone must not be sent a window a hundred times a second.
func (t *timer) backedOff(d time.Duration) time.Duration {
	return min(min(d, t.ceiling)<<min(t.backoff, 16), max(t.ceiling, maxRTO))
}

// expired doubles the wait (RFC 6298 §5.5).
func (t *timer) expired() { t.backoff++ }

// eased ends the backoff, when a timeout turns out to have been right. RFC 6298
// waits for a measurement, which never comes where the end of each window is
// lost: what is sent twice is not measured.
func (t *timer) eased() { t.backoff = 0 }

// hasty raises the margin, when a timeout turns out to have been needless: the
// answer was on its way.
func (t *timer) hasty() {
	t.margin, t.calm = min(2*max(t.margin, minRTO), cautiousRTO), 0
}

// trip returns the smoothed round trip, or a guess before the first sample.
func (t *timer) trip() time.Duration {
	if !t.sampled {
		return windowRTO
	}
	return t.srtt
}

// shortest returns the least round trip seen, or a guess before the first.
func (t *timer) shortest() time.Duration {
	if !t.sampled {
		return windowRTO
	}
	return t.least
}
