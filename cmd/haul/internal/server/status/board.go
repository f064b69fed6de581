// Package status shows what a server is doing: to people on a page, and to programs as JSON.
//
// A [Board] collects the data. The server calls [Board.Ended] for each transfer that ends. The
// board reads the transfers under way from package meter, and keeps the sums of the last hour. A
// [Server] serves the board over HTTP: api.go defines the answers for programs, and view.go and
// page.go define the answers for people.
//
// # Cost
//
// While nobody watches, a Board only sums up the transfers under way every five seconds. The data
// for viewers is at most a second old. It is collected once for all viewers, so a thousand of them
// cost no more than one.
package status

import (
	"cmp"
	"context"
	"math/bits"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
)

const (
	// freshFor is how long a snapshot is used before a new one is made.
	freshFor = time.Second

	// maxMachines is how many machines are shown.
	maxMachines = 1 << 14
)

// A Board collects data about the work of a server. Set its fields before [Serve]. Any goroutine
// may call its methods.
type Board struct {
	Version   string
	Protocols []meter.Protocol // the protocols served, in the order in which they are shown
	Transfers *meter.Registry  // counts the transfers; must have been made with a Config.Ended that calls [Board.Ended]
	// Machines returns the machines that boot; it is nil if the server does not answer boot
	// clients.
	Machines func() []pxe.Machine

	once     sync.Once
	began    time.Time
	host     string
	counts   []counts // one entry for each of Protocols
	failures failures
	draining atomic.Bool

	mu     sync.Mutex
	series series // guarded by mu
	marks  [2]marks
	shown  *snapshot // nil before the first snapshot; guarded by mu
}

// counts holds the counts of one protocol since the start.
type counts struct {
	ended, failed, bytes, sent, resent atomic.Int64
	// most is the largest sum of bytes so far, including those of transfers under way; guarded by
	// Board.mu.
	most int64
}

// A marks records, for one point in time, how many bytes each transfer under way had moved, by the
// transfer's ID.
type marks struct {
	at    time.Time
	bytes map[uint64]int64
}

// init prepares a Board before its first use.
func (b *Board) init() {
	b.once.Do(func() {
		b.began = time.Now()
		b.host, _ = os.Hostname() // "" if this machine has no name
		b.counts = make([]counts, len(b.Protocols))
		b.series.protocols = make([][samples]sample, len(b.Protocols))
	})
}

// Ended records a transfer that has ended. It does not block, except for a lock that is held for
// some microseconds.
func (b *Board) Ended(e meter.Ended) {
	b.init()
	at := slices.Index(b.Protocols, e.Protocol)
	if at < 0 {
		return
	}
	c := &b.counts[at]
	c.ended.Add(1)
	c.bytes.Add(max(e.Bytes, 0))
	c.sent.Add(max(e.Sent, 0))
	c.resent.Add(max(e.Resent, 0))
	if isFailure(e) {
		c.failed.Add(1)
		b.failures.add(newFailure(e, time.Now()))
	}
}

// run takes samples until ctx ends.
func (b *Board) run(ctx context.Context) {
	b.init()
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			b.sample(now)
		}
	}
}

// sample adds a sample to the series, and records how many bytes each transfer has moved.
func (b *Board) sample(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	oldest := b.marks[0].bytes
	clear(oldest)
	if oldest == nil {
		oldest = map[uint64]int64{}
	}
	b.marks[0], b.marks[1] = b.marks[1], marks{now, oldest}
	b.series.add(now, b.totals(func(t *meter.Snapshot, _ int) { oldest[t.ID] = t.Bytes }))
}

// totals returns the counts of each of Protocols, including transfers under way. It calls `each` for
// every transfer under way, where `at` is the index of the transfer's protocol, or -1 if the
// protocol is not in Protocols. The caller holds mu.
func (b *Board) totals(each func(t *meter.Snapshot, at int)) []sample {
	totals := b.ended()
	for t := range b.Transfers.Live() {
		at := slices.Index(b.Protocols, t.Protocol)
		if each(&t, at); at >= 0 {
			totals[at].live++
			totals[at].bytes += t.Bytes
		}
	}
	for at := range totals {
		// A transfer that ends while the sums are taken may be missing both among the transfers
		// under way and among the ended ones. The next sums will contain it.
		c := &b.counts[at]
		c.most = max(c.most, totals[at].bytes)
		totals[at].bytes = c.most
	}
	return totals
}

// ended returns the counts of ended transfers, one sample for each of Protocols.
func (b *Board) ended() []sample {
	totals := make([]sample, len(b.counts))
	for at := range b.counts {
		c := &b.counts[at]
		// A failed transfer is counted as ended first, and then as failed. So read failed first:
		// then there are never more failed transfers than ended ones.
		totals[at] = sample{failed: c.failed.Load(), resent: c.resent.Load(), sent: c.sent.Load(), bytes: c.bytes.Load(), ended: c.ended.Load()}
	}
	return totals
}

// A snapshot holds the data that a board shows for one point in time. It does not change once it is
// made.
type snapshot struct {
	at        time.Time
	totals    []Totals
	transfers []Transfer     // the fastest first
	machines  []Machine      // stuck machines first; nil if the server does not answer boot clients
	stages    map[string]int // how many machines are at each stage, including those not shown
	once      sync.Once
	view      *view
}

// snapshot returns the current snapshot, at most freshFor old.
func (b *Board) snapshot(now time.Time) *snapshot {
	b.init()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shown == nil || now.Sub(b.shown.at) >= freshFor || now.Before(b.shown.at) {
		b.shown = b.look(now)
	}
	return b.shown
}

// look makes a new snapshot. The caller holds mu.
func (b *Board) look(now time.Time) *snapshot {
	s := &snapshot{at: now, transfers: []Transfer{}}
	rates := make([]int64, len(b.Protocols))
	totals := b.totals(func(t *meter.Snapshot, at int) {
		rate := b.rate(t, now)
		s.transfers = append(s.transfers, newTransfer(t, rate))
		if at >= 0 {
			rates[at] += rate
		}
	})
	for at, p := range b.Protocols {
		n := totals[at]
		s.totals = append(s.totals, Totals{Protocol: string(p), Live: n.live, Rate: rates[at], Bytes: n.bytes, Ended: n.ended, Failed: n.failed, TurnedAway: b.Transfers.Refused(p)})
	}
	// Compare rates by order of magnitude, so that transfers of similar speed keep their places.
	slices.SortFunc(s.transfers, func(x, y Transfer) int {
		return cmp.Or(cmp.Compare(bits.Len64(uint64(y.Rate)), bits.Len64(uint64(x.Rate))), cmp.Compare(x.ID, y.ID))
	})
	if b.Machines != nil {
		s.machines = []Machine{}
		for _, m := range b.Machines() {
			s.machines = append(s.machines, newMachine(&m, now))
		}
		stages := Stages()
		slices.SortStableFunc(s.machines, func(x, y Machine) int {
			return cmp.Compare(slices.Index(stages, x.Stage), slices.Index(stages, y.Stage))
		})
	}
	s.stages, s.machines = byStage(s.machines), s.machines[:min(len(s.machines), maxMachines)]
	return s
}

// rate returns how many bytes a second a transfer has moved: in the last five to ten seconds or, if
// it is younger, since it began. The caller holds mu.
func (b *Board) rate(t *meter.Snapshot, now time.Time) int64 {
	since, from := t.Began, int64(0)
	for _, m := range b.marks {
		if bytes, ok := m.bytes[t.ID]; ok {
			since, from = m.at, bytes
			break
		}
	}
	took := now.Sub(since).Seconds()
	if took <= 0 {
		return 0
	}
	return int64(float64(max(t.Bytes-from, 0)) / max(took, 0.001))
}

// info returns the answer to /api/v1/info.
func (b *Board) info(s *snapshot) Info {
	return Info{Version: b.Version, Host: b.host, Time: s.at.UTC(), Started: b.began.UTC(), Draining: b.draining.Load(), Protocols: s.totals}
}

// hour returns the answer to /api/v1/series.
func (b *Board) hour() Series {
	b.init()
	b.mu.Lock()
	defer b.mu.Unlock()
	out := Series{Time: b.series.at.UTC(), Step: sampleEvery.Seconds(), Protocols: []ProtocolSeries{}}
	for i, p := range b.Protocols {
		one := ProtocolSeries{Protocol: string(p), Bytes: []int64{}, Live: []int64{}, Ended: []int64{}, Failed: []int64{}, Sent: []int64{}, Resent: []int64{}}
		for _, s := range b.series.of(i) {
			one.Bytes, one.Live, one.Ended = append(one.Bytes, s.bytes), append(one.Live, s.live), append(one.Ended, s.ended)
			one.Failed, one.Sent, one.Resent = append(one.Failed, s.failed), append(one.Sent, s.sent), append(one.Resent, s.resent)
		}
		out.Protocols = append(out.Protocols, one)
	}
	return out
}
