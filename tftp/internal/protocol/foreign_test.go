package protocol

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/golden"

	"github.com/haul-project/haul/tftp/transfer"
)

// A foreignReceiver imitates a client of another implementation: it accepts blocks only in order,
// and acknowledges by its own rules.
type foreignReceiver struct {
	window  int64
	nacks   nackRule
	timeout time.Duration // time after which it repeats its last ACK

	got, acked int64
	reported   int64 // gap it has reported
	whole      bool
}

type nackRule int

const (
	nackOnce   nackRule = iota // sends one duplicate ACK for each gap, as U-Boot does
	nackEvery                  // sends one for every block out of order
	nackNever                  // sends one only when the timer expires
	ackAlways                  // sends an ACK for every block, in order or not, as iPXE does
	nackRepeat                 // like nackOnce, but repeats the ACK when the window should be full
)

func (n nackRule) String() string {
	return [...]string{"one NACK a gap", "a NACK a block", "no NACK", "an ACK a block", "NACK at the window's end"}[n]
}

// data handles a block, and reports whether the receiver sends an ACK of f.got.
func (f *foreignReceiver) data(wire uint16, last bool) bool {
	k := widen(f.got+f.window, wire, transfer.RolloverZero)
	switch {
	case k == f.got+1:
		f.got++
		f.whole = last
		if f.got >= f.acked+f.window || last || f.nacks == ackAlways {
			f.acked = f.got
			return true
		}
	case k == f.got: // the last block arrives again, because its ACK was lost
		f.acked = f.got
		return true
	case f.nacks == nackEvery || f.nacks == ackAlways,
		k > f.got && f.reported != f.got+1 && f.nacks != nackNever,
		k == f.acked+f.window && f.nacks == nackRepeat:
		f.reported = f.got + 1
		f.acked = f.got
		return true
	}
	return false
}

// A foreignWorld is a Sender that serves a foreignReceiver.
type foreignWorld struct {
	rng   *rand.Rand
	loss  float64
	delay time.Duration
	stall time.Duration // a single pause of the path in the middle of the transfer
	f     foreignReceiver
	s     Sender

	now, base time.Time
	evs       eventHeap
	seq       int
	sent      int64
	stalled   time.Time
	wake      time.Time
	fTimer    int
}

func (w *foreignWorld) at(t time.Time, run func()) {
	w.seq++
	heap.Push(&w.evs, event{t, w.seq, run})
}

// arrival returns when a datagram sent now arrives.
func (w *foreignWorld) arrival() time.Time {
	t := w.now
	if t.Before(w.stalled) {
		t = w.stalled
	}
	return t.Add(w.delay)
}

func (w *foreignWorld) ack() {
	wire := uint16(w.f.got)
	w.armForeign()
	if w.rng.Float64() >= w.loss {
		w.at(w.arrival(), func() {
			w.s.Handle(w.now, appendAck(nil, int64(wire), transfer.RolloverZero))
			w.drive()
		})
	}
}

// armForeign starts the foreign receiver's timer.
func (w *foreignWorld) armForeign() {
	w.fTimer++
	mine := w.fTimer
	if !w.f.whole {
		w.at(w.now.Add(w.f.timeout), func() {
			if w.fTimer == mine {
				w.f.acked = w.f.got
				w.ack()
			}
		})
	}
}

func (w *foreignWorld) drive() {
	for {
		run := w.s.Due(w.now)
		if run.Blocks == 0 {
			break
		}
		for k := run.Block; k < run.Block+int64(run.Blocks); k++ {
			w.sent++
			if k == w.s.total/2 && w.stall > 0 && w.stalled.IsZero() {
				w.stalled = w.now.Add(w.stall)
			}
			if w.rng.Float64() < w.loss {
				continue
			}
			wire, last := wireNumber(k, transfer.RolloverZero), k == w.s.total
			w.at(w.arrival(), func() {
				before := w.f.got
				if w.f.data(wire, last) {
					w.ack()
				} else if w.f.got > before {
					w.armForeign()
				}
			})
		}
		w.s.Sent(w.now, run.Blocks)
	}
	if d := w.s.Deadline(); !d.IsZero() && !d.Equal(w.wake) {
		w.wake = d
		w.at(d, func() { w.s.Expire(w.now); w.drive() })
	}
}

// run transfers a file of the given number of blocks and returns the time it took.
func (w *foreignWorld) run(blocks int64) (time.Duration, error) {
	w.base = time.Unix(1_000_000, 0)
	w.now = w.base
	o := transfer.Options{BlockSize: 8, Window: int(w.f.window)}
	w.s.Answer(w.now, o, blocks*8-1)
	w.s.AppendReply(w.now, nil)
	w.at(w.now.Add(2*w.delay), func() { w.s.Handle(w.now, []byte{0, 4, 0, 0}); w.drive() })
	var whole time.Duration
	for w.evs.Len() > 0 {
		e := heap.Pop(&w.evs).(event)
		w.now = e.at
		e.run()
		if w.f.whole && whole == 0 {
			whole = w.now.Sub(w.base)
		}
		if w.now.Sub(w.base) > time.Hour {
			return 0, fmt.Errorf("not done in an hour")
		}
		if done, _ := w.s.Done(); done {
			break
		}
	}
	_, err := w.s.Done()
	if !w.f.whole {
		return 0, fmt.Errorf("not whole: %d of %d blocks, sender: %v", w.f.got, blocks, err)
	}
	return whole, nil
}

// TestForeignReceivers checks a table of how long foreign receivers wait for a file, and how many
// datagrams that takes, like TestThroughput. With any of their rules and paths, a Sender must not
// be very slow, and must not send too many packets.
func TestForeignReceivers(t *testing.T) {
	const blocks = 2000
	var b strings.Builder
	fmt.Fprintf(&b, "Seconds for %d blocks (datagrams sent / needed) by a round trip of 1 ms, to receivers that drop what is out of order,\n", blocks)
	b.WriteString("by windowsize and loss each way; the second column of each with a stall of 1.5 s in the midst\n")
	for nacks := nackOnce; nacks <= nackRepeat; nacks++ {
		fmt.Fprintf(&b, "\n%-24s", nacks)
		losses := []float64{0, 0.01, 0.03}
		for i, loss := range losses {
			fmt.Fprintf(&b, "%*v", 16+min(i, 1)*16, loss)
		}
		b.WriteString("\n")
		for _, window := range []int64{1, 4, 16, 64} {
			fmt.Fprintf(&b, "%24d", window)
			for _, loss := range losses {
				for _, stall := range []time.Duration{0, 1500 * time.Millisecond} {
					w := &foreignWorld{
						rng: rand.New(rand.NewPCG(1, 2)), loss: loss, delay: 500 * time.Microsecond, stall: stall,
						f: foreignReceiver{window: window, nacks: nacks, timeout: time.Second},
					}
					took, err := w.run(blocks)
					cost := float64(w.sent) / blocks
					if err != nil || cost > 4 || nacks != nackNever && took > 20*time.Second {
						t.Errorf("%s, window %d, loss %v, stall %v: took %v, %.2f packets a block, %v", nacks, window, loss, stall, took, cost, err)
					}
					fmt.Fprintf(&b, "%9.2f (%.2f)", took.Seconds(), cost)
				}
			}
			b.WriteString("\n")
		}
	}
	golden.Compare(t, "foreign.txt", b.String())
}
