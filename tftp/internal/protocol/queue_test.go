package protocol

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/golden"
	"github.com/haul-project/haul/internal/repeat"

	"github.com/haul-project/haul/tftp/transfer"
)

// An ubootWorld has a Sender that serves the TFTP client of U-Boot (net/tftp.c) through a short
// queue, such as the ring of a small network card, or a switch.
type ubootWorld struct {
	s      Sender
	window int64
	queue  int64         // how many packets the queue holds; further packets are lost
	drain  time.Duration // time for each packet
	delay  time.Duration // delay in each direction
	oack   time.Duration // time that U-Boot takes to answer the OACK, which is its slowest answer

	got, nextACK, lastNACK int64
	reported               bool // lastNACK is the number of a block rather than the initial value
	timeouts               int
	whole                  bool

	now, base time.Time
	free      time.Time   // when the queue is empty
	leaves    []time.Time // when each packet of the queue leaves it
	// pauses returns the peer's next pause, counted from the end of the latest one; nil for no
	// pauses.
	pauses func() (after, length time.Duration)
	pause  time.Time     // when the next pause begins
	paused time.Duration // how long the next pause is
	evs    eventHeap
	seq    int
	sent   int64
	wake   time.Time
	timer  int
}

// The constants of U-Boot: the time after which it repeats its last ACK, and how many times it does
// that in a whole transfer before it gives up.
const (
	ubootTimeout = 5 * time.Second
	ubootTries   = 10
)

func (w *ubootWorld) at(t time.Time, run func()) {
	w.seq++
	heap.Push(&w.evs, event{t, w.seq, run})
}

// data handles a block that arrives. While U-Boot waits for a certain block, it answers unexpected
// blocks with a single ACK.
func (w *ubootWorld) data(k int64, last bool) {
	if k != w.got+1 {
		if !w.reported || w.lastNACK != w.got {
			w.reported, w.lastNACK = true, w.got
			w.nextACK = w.got + w.window
			w.ack()
		}
		return
	}
	w.got = k
	w.arm()
	if k == w.nextACK || last {
		w.whole = last
		w.nextACK += w.window
		w.ack()
	}
}

func (w *ubootWorld) ack() {
	k := w.got
	w.at(w.now.Add(w.delay), func() {
		w.s.Handle(w.now, appendAck(nil, k, transfer.RolloverZero))
		w.drive()
	})
}

// arm starts the timer again, as each block in order does.
func (w *ubootWorld) arm() {
	w.timer++
	mine := w.timer
	if w.whole {
		return
	}
	w.at(w.now.Add(ubootTimeout), func() {
		if w.timer != mine || w.whole {
			return
		}
		if w.timeouts++; w.timeouts <= ubootTries {
			w.ack()
			w.arm()
		}
	})
}

func (w *ubootWorld) drive() {
	for run := w.s.Due(w.now); run.Blocks > 0; run = w.s.Due(w.now) {
		for k := run.Block; k < run.Block+int64(run.Blocks); k++ {
			w.sent++
			if w.free.Before(w.now) {
				w.free = w.now
			}
			for len(w.leaves) > 0 && !w.leaves[0].After(w.now) {
				w.leaves = w.leaves[1:]
			}
			if int64(len(w.leaves)) >= w.queue {
				continue
			}
			w.waitForPeer()
			w.free = w.free.Add(w.drain)
			w.leaves = append(w.leaves, w.free)
			last := k == w.s.total
			w.at(w.free.Add(w.delay), func() { w.data(k, last) })
		}
		w.s.Sent(w.now, run.Blocks)
	}
	if d := w.s.Deadline(); !d.IsZero() && !d.Equal(w.wake) {
		w.wake = d
		w.at(d, func() { w.s.Expire(w.now); w.drive() })
	}
}

// waitForPeer stops the queue while the peer pauses.
func (w *ubootWorld) waitForPeer() {
	for w.pauses != nil && !w.free.Before(w.pause) {
		if resumes := w.pause.Add(w.paused); w.free.Before(resumes) {
			w.free = resumes
		}
		after, length := w.pauses()
		w.pause, w.paused = w.pause.Add(w.paused+after), length
	}
}

func (w *ubootWorld) run(blocks int64) (time.Duration, error) {
	w.base = time.Unix(1_000_000, 0)
	w.now, w.nextACK = w.base, w.window
	w.pause = w.base
	w.s.Answer(w.now, transfer.Options{BlockSize: 8, Window: int(w.window)}, blocks*8-1)
	w.s.AppendReply(w.now, nil)
	w.arm()
	w.at(w.now.Add(w.oack), func() { w.s.Handle(w.now, []byte{0, 4, 0, 0}); w.drive() })
	for w.evs.Len() > 0 && !w.whole && w.now.Sub(w.base) < time.Hour {
		e := heap.Pop(&w.evs).(event)
		w.now = e.at
		e.run()
	}
	if !w.whole {
		_, err := w.s.Done()
		return 0, fmt.Errorf("%d of %d blocks after %v and %d timeouts, sender: %v", w.got, blocks, w.now.Sub(w.base), w.timeouts, err)
	}
	return w.now.Sub(w.base), nil
}

// TestShortQueues checks a table of U-Boot's results with queues that hold fewer packets than a
// window has, so that the end of each window is lost.
func TestShortQueues(t *testing.T) {
	const blocks = 2000
	var b strings.Builder
	fmt.Fprintf(&b, "Seconds for %d blocks (datagrams sent / needed) to U-Boot by a round trip of 0.3 ms,\n", blocks)
	b.WriteString("by windowsize and by how many packets a queue holds that drains one in 50 us\n\n")
	queues := []int64{1, 2, 4, 8, 12, 14, 15, 16, 40, 60, 64}
	fmt.Fprintf(&b, "%8s", "")
	for _, q := range queues {
		fmt.Fprintf(&b, "%15d", q)
	}
	b.WriteString("\n")
	for _, window := range []int64{1, 2, 4, 16, 64} {
		fmt.Fprintf(&b, "%8d", window)
		for _, queue := range queues {
			w := &ubootWorld{
				window: window, queue: queue, drain: 50 * time.Microsecond,
				delay: 150 * time.Microsecond, oack: 2 * time.Millisecond,
			}
			took, err := w.run(blocks)
			cost := float64(w.sent) / blocks
			if err != nil || cost > 4 || took > 20*time.Second {
				t.Errorf("window %d, queue %d: took %v, %.2f packets a block, %v", window, queue, took, cost, err)
			}
			fmt.Fprintf(&b, "%8.2f (%.2f)", took.Seconds(), cost)
		}
		b.WriteString("\n")
	}
	golden.Compare(t, "queues.txt", b.String())
}

// A peer that pauses answers some packets late and most of them soon. The Sender must nevertheless
// recognize that its timeouts are right. It must not double each wait until U-Boot's own timer
// expires, which repeats an ACK at most ten times.
func TestShortQueueBusyPeer(t *testing.T) {
	repeat.OnFailure(t)
	const blocks = 715
	for _, pause := range []time.Duration{0, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond} {
		for _, every := range []time.Duration{5 * time.Millisecond, 100 * time.Millisecond} {
			for seed := range uint64(30) {
				rng := rand.New(rand.NewPCG(1, seed))
				w := &ubootWorld{
					window: 16, queue: 15, drain: 20 * time.Microsecond, delay: 100 * time.Microsecond, oack: 2 * time.Millisecond,
					pauses: func() (after, length time.Duration) {
						return time.Duration(rng.ExpFloat64() * float64(every)), time.Duration(rng.Float64() * float64(pause))
					},
				}
				took, err := w.run(blocks)
				if most := time.Second + blocks*pause/10; err != nil || w.timeouts > 0 || took > most {
					t.Errorf("seed %d, pauses of up to %v every %v: took %v, at most %v was expected; %d timeouts of U-Boot's; %v", seed, pause, every, took, most, w.timeouts, err)
				}
			}
		}
	}
}
