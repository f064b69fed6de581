package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// historyVersion is the version of the format of a history. A board ignores other versions.
const historyVersion = 1

// A history holds the data that the board of a new process takes over: the last hour and the
// failures.
type history struct {
	Version  int       `json:"version"`
	Hour     Series    `json:"hour"`
	Failures []Failure `json:"failures"`
}

// History returns the history for the board of the next process. It has less than 2 MB, because the
// numbers of samples and failures are bounded.
func (b *Board) History() []byte {
	text, err := json.Marshal(history{historyVersion, b.hour(), b.failures.list()})
	if err != nil {
		panic(err) // impossible: encoding fails only for values that have no JSON form
	}
	return text
}

// Remember adds a history that the method History of an earlier process's board has returned. It
// puts that history before the data of this board, and leaves out protocols that are no longer
// served.
func (b *Board) Remember(text []byte) error {
	var h history
	if err := json.Unmarshal(text, &h); err != nil {
		return fmt.Errorf("history of the status page: %w", err)
	}
	if h.Version != historyVersion || h.Hour.Step != sampleEvery.Seconds() {
		return fmt.Errorf("history of the status page: its form is version %d, not %d", h.Version, historyVersion)
	}
	past := make([][]sample, len(b.Protocols))
	length := 0
	for _, p := range h.Hour.Protocols {
		list, ok := p.samples()
		if !ok || len(list) > samples {
			return errors.New("history of the status page: its samples do not go together")
		}
		length = max(length, len(list))
		for i := range b.Protocols {
			if string(b.Protocols[i]) == p.Protocol {
				past[i] = list
			}
		}
	}
	b.init()
	b.mu.Lock()
	b.series.putBefore(past, length)
	if b.series.at.IsZero() {
		b.series.at = h.Hour.Time
	}
	b.shown = nil
	b.mu.Unlock()
	b.failures.putBefore(h.Failures)
	return nil
}

// samples returns the samples of a protocol. ok is false if the lists in p have different lengths.
func (p *ProtocolSeries) samples() (list []sample, ok bool) {
	for _, one := range [][]int64{p.Live, p.Ended, p.Failed, p.Sent, p.Resent} {
		if len(one) != len(p.Bytes) {
			return nil, false
		}
	}
	for i := range p.Bytes {
		list = append(list, sample{bytes: p.Bytes[i], live: p.Live[i], ended: p.Ended[i], failed: p.Failed[i], sent: p.Sent[i], resent: p.Resent[i]})
	}
	return list, true
}

// putBefore inserts `length` samples of each protocol before the present samples. If past has fewer
// samples of a protocol, zeros replace the missing ones at the beginning.
func (s *series) putBefore(past [][]sample, length int) {
	n := min(s.n+length, samples)
	for i := range s.protocols {
		all := slices.Concat(make([]sample, length-len(past[i])), past[i], s.of(i))
		copy(s.protocols[i][:], all[len(all)-n:])
	}
	s.n, s.next = n, n%samples
}

// putBefore inserts the failures of an earlier process before the present failures, and renumbers
// the present ones to follow them. past begins with the latest failure.
func (f *failures) putBefore(past []Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := append(f.kept(), past...)
	if len(past) >= maxFailures {
		f.n += past[0].ID
	} else {
		f.n += uint64(len(past))
	}
	for i := range min(f.n, uint64(len(all)), maxFailures) {
		all[i].ID = f.n - i
		f.last[(f.n-i)%maxFailures] = all[i]
	}
}
