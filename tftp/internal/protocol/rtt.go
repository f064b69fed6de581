package protocol

import (
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// The retransmission timer follows RFC 6298, with two deviations that docs/tftp.md explains. The
// shortest timeout is milliseconds instead of 1 s, because TFTP is slow if a window waits a second
// for each lost packet. The longest timeout is the negotiated one, or 3 s if that is longer and the
// peer does not answer. A read request is repeated sooner than other packets.
const (
	initialRTO = time.Second     // RFC 6298 §2.1
	maxRTO     = 3 * time.Second // the longest timeout if no timeout was negotiated
	clockGrain = time.Millisecond

	// readRTO is the first wait for the answer to a read request; it doubles each time. A server
	// recognizes the repeated request, or answers it twice, and then the client keeps one answer.
	// Both cost less than a wait of a second for each lost request. This wait is longer than
	// repeatGap.
	readRTO = 250 * time.Millisecond

	// writeRTO is the first wait for the answer to a write request. Many servers start a process
	// for each request. A second process truncates the file and so loses the data that the first
	// one has already written. So a server that is only slow to start should not be asked twice.
	writeRTO = initialRTO

	minTrip = time.Microsecond

	// minRTO is the shortest timeout. After a hasty (needless) timeout, the margin added to later
	// round trips is at least twice minRTO, and each further hasty timeout doubles the margin, up
	// to cautiousRTO. The reason is that round trips to a busy host jitter by milliseconds, however
	// long and steady they seem. After calmTrips measurements without a hasty timeout, the margin
	// is halved.
	minRTO    = 2 * time.Millisecond
	calmTrips = 1024

	// cautiousRTO is the smallest margin added to a round trip if a needless timeout costs more
	// than one packet: a whole window, or an ACK that a sender with the Sorcerer's Apprentice bug
	// answers with another packet. It also applies if the answer waits for a disk, like the answer
	// to the last block.
	cautiousRTO = 10 * time.Millisecond

	// A round trip of some milliseconds may consist only of waiting in a busy host, whose pauses
	// are just as long. The variance forgets such pauses within a dozen trips. So the timeout is at
	// least busyTrips round trips, or cautiousRTO if that is less.
	busyTrips = 2

	// windowRTO is the margin until a whole window is measured. The first round trip carries one
	// small packet, so it does not show how long a window takes on a slow link.
	windowRTO = 200 * time.Millisecond
)

// A timer estimates the round trip time and computes how long to wait.
type timer struct {
	srtt, rttvar time.Duration
	least        time.Duration // shortest round trip seen
	ceiling      time.Duration
	backoff      uint // how many times the wait was doubled since the last measurement
	sampled      bool
	margin       time.Duration // smallest margin added to a trip; hasty timeouts raise it
	calm         int           // measurements since the margin was last changed
}

// limit sets the longest wait to the given timeout, but to at most longestWait. A timeout of zero
// means maxRTO.
func (t *timer) limit(timeout time.Duration) {
	t.ceiling = min(timeout, longestWait)
	if timeout <= 0 {
		t.ceiling = maxRTO
	}
}

// sample records a measured round trip and ends the backoff. The packet must have been sent only
// once (Karn's rule). The trip is kept between minTrip and the longest timeout, even if the clock
// says otherwise. With a trip of zero, work that is done once per round trip would be done
// endlessly.
func (t *timer) sample(rtt time.Duration) {
	rtt = min(max(rtt, minTrip), transfer.MaxTimeout)
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

// rto returns the retransmission timeout: a round trip plus at least the given margin.
func (t *timer) rto(margin time.Duration) time.Duration {
	d := initialRTO
	if t.sampled {
		d = max(t.srtt+max(clockGrain, 4*t.rttvar, t.margin, margin), minRTO, min(busyTrips*t.srtt, cautiousRTO))
	}
	return t.backedOff(d)
}

// backedOff returns a wait within the ceiling, doubled for each timeout in a row. It may exceed a
// short negotiated timeout: a peer that asks for 10 ms and then vanishes must not get a window a
// hundred times a second.
func (t *timer) backedOff(d time.Duration) time.Duration {
	return min(min(d, t.ceiling)<<min(t.backoff, 16), max(t.ceiling, maxRTO))
}

// expired doubles the wait (RFC 6298 §5.5).
func (t *timer) expired() { t.backoff++ }

// eased ends the backoff after a timeout that turned out to be right. RFC 6298 waits for a
// measurement. But there is no measurement if the end of each window is lost, because packets sent
// twice are not measured.
func (t *timer) eased() { t.backoff = 0 }

// hasty raises the margin after a timeout that turned out to be needless: the answer was already on
// its way.
func (t *timer) hasty() {
	t.margin, t.calm = min(2*max(t.margin, minRTO), cautiousRTO), 0
}

// trip returns the smoothed round trip time, or windowRTO before the first measurement.
func (t *timer) trip() time.Duration {
	if !t.sampled {
		return windowRTO
	}
	return t.srtt
}

// shortest returns the shortest round trip measured, or windowRTO before the first measurement.
func (t *timer) shortest() time.Duration {
	if !t.sampled {
		return windowRTO
	}
	return t.least
}
