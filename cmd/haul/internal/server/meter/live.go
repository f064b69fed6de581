package meter

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// MaxLive is the largest number of transfers under way that a Registry lists. The bytes of further
// transfers are counted when they end.
const MaxLive = 1 << 16

const (
	// parts is the number of parts of a table, each with its own lock. With several locks, the
	// loops of a server seldom wait for each other, and a scrape holds no lock for long: the 4096
	// entries of a part take less than a millisecond.
	parts = 16

	// noSlot is the slot of a transfer for which the table had no room.
	noSlot = -1
)

// A table lists the transfers under way, distributed over several parts.
type table struct {
	ids    atomic.Uint64
	listed atomic.Int64
	parts  [parts]part
}

// A part is the part of a table that one lock protects.
type part struct {
	mu   sync.Mutex
	live []*Transfer
}

// part returns the part of the table that a transfer belongs to, whether or not it is listed. IDs
// are consecutive, so the parts fill evenly.
func (b *table) part(t *Transfer) *part { return &b.parts[t.id%parts] }

// add gives a transfer its ID and lists the transfer. It returns false if the table has no room.
func (b *table) add(t *Transfer) bool {
	t.id, t.slot = b.ids.Add(1), noSlot
	if b.listed.Add(1) > MaxLive {
		b.listed.Add(-1)
		return false
	}
	p := b.part(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	t.slot = len(p.live)
	p.live = append(p.live, t)
	return true
}

// remove removes a transfer from the list, and counts the bytes that are not counted yet. It
// returns false if the transfer was removed before.
func (b *table) remove(t *Transfer) bool {
	p := b.part(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.ended {
		return false
	}
	t.ended = true
	t.flush()
	if t.slot == noSlot {
		return true
	}
	last := len(p.live) - 1
	p.live[t.slot] = p.live[last]
	p.live[t.slot].slot = t.slot
	p.live[last] = nil
	p.live = p.live[:last]
	b.listed.Add(-1)
	return true
}

// flush adds to the counter the bytes that transfers under way have moved since the last flush.
func (b *table) flush() {
	for i := range b.parts {
		p := &b.parts[i]
		p.mu.Lock()
		for _, t := range p.live {
			t.flush()
		}
		p.mu.Unlock()
	}
}

// A Snapshot is the state of a transfer under way, at the time when Live lists it.
type Snapshot struct {
	ID    uint64 // consecutive since the start; later transfers have higher IDs
	Info         // how the transfer began; Began is never zero
	Bytes int64  // number of bytes moved so far
	Way          // zero unless the protocol measures the path: see Transfer.Measure
}

// snapshot appends snapshots of the transfers in this part to list.
func (p *part) snapshot(list []Snapshot) []Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.live {
		list = append(list, Snapshot{ID: t.id, Info: t.info, Bytes: t.progress(), Way: t.measured()})
	}
	return list
}

// bytesCounter is the counter of bytes moved. Before a scrape reads it, it adds the bytes of
// transfers under way.
type bytesCounter struct {
	*prometheus.CounterVec
	live *table
}

// Collect implements [prometheus.Collector].
func (s bytesCounter) Collect(out chan<- prometheus.Metric) {
	s.live.flush()
	s.CounterVec.Collect(out)
}
