package status

import "time"

const (
	// sampleEvery is the time between two samples. samples is how many samples are kept, which is
	// an hour's worth.
	sampleEvery = 5 * time.Second
	samples     = 720
)

// A sample describes the work of one protocol in one step: by how much each count has grown, and
// live, the number of transfers under way at the end of the step.
type sample struct{ bytes, ended, failed, sent, resent, live int64 }

// A series holds the latest samples of each protocol.
type series struct {
	next, n   int // the index at which the next sample is stored, and the number of samples
	at        time.Time
	before    []sample // the counts since the start, at the time of the latest sample
	protocols [][samples]sample
}

// add adds a sample for each protocol. totals holds the counts since the start.
func (s *series) add(now time.Time, totals []sample) {
	for i, t := range totals {
		var was sample
		if s.before != nil {
			was = s.before[i]
		}
		s.protocols[i][s.next] = sample{
			bytes: t.bytes - was.bytes, ended: t.ended - was.ended, failed: t.failed - was.failed,
			sent: t.sent - was.sent, resent: t.resent - was.resent, live: t.live,
		}
	}
	s.before, s.at = totals, now
	s.next = (s.next + 1) % samples
	s.n = min(s.n+1, samples)
}

// of returns the samples of the protocol with the index i, the oldest first.
func (s *series) of(i int) []sample {
	list := make([]sample, 0, s.n)
	for k := range s.n {
		list = append(list, s.protocols[i][(s.next-s.n+k+samples)%samples])
	}
	return list
}
