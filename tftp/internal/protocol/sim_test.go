package protocol

import (
	"bytes"
	"container/heap"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

var (
	simSeed  = flag.Uint64("seed", 0, "run this one seed of the simulation")
	simTrace = flag.Bool("trace", false, "print every simulated datagram")
	simSeeds = flag.Int("seeds", 3000, "how many seeds the simulation runs")
)

// A faults describes the faults of a simulated path and of the two ends.
type faults struct {
	loss, dup, reorder float64       // probability for each datagram
	delay, jitter      time.Duration // in each direction
	partial            float64       // probability that a driver sends only part of a run
	slowStore          time.Duration // the longest time to store a chunk
	vanish             time.Duration // when the receiver (or the sender) stops responding; 0 for never
	senderVanishes     bool
	bandwidth          int64 // bytes per second; 0 means no limit
	// queue is how many packets may wait for the bandwidth, including the one that is being sent; 0
	// means no limit.
	queue int
	tick  time.Duration // tick of the drivers' clocks: a wait lasts whole ticks; 0 means exact waits
}

// A world holds a Sender and a Receiver, the path between them, and the time.
type world struct {
	rng  *rand.Rand
	f    faults
	base time.Time
	now  time.Time
	evs  eventHeap
	seq  int

	s      Sender
	r      Receiver
	client bool // the Sender is the client, and sends a write request
	req    transfer.Request
	limits transfer.Limits
	size   int64

	toR, toS   pipe
	stored     []bool // blocks in the store
	storedN    int64
	lastSeen   bool // the chunk with Last was received
	published  bool // the file is stored
	storing    int
	sWake      time.Time
	rWake      time.Time
	sentTotal  int64
	began      time.Time // start of the sender's latest recovery, to check its pace
	problem    string
	serverUp   bool
	senderDark bool
	recvDark   bool
	dropNth    map[int]action // exhaustive worlds: the fate of the nth datagram
	nth        int
	watch      func() // called after every event
	oldServer  bool   // the server knows no options
	noReorder  bool   // the receiver drops blocks that arrive out of order
	cautious   int64  // bytes for Cautious of the server's Sender; 0 for no call
}

type action int

const (
	deliver action = iota
	drop
	duplicate
	late
)

type event struct {
	at  time.Time
	seq int
	run func()
}
type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at.Before(h[j].at) || h[i].at.Equal(h[j].at) && h[i].seq < h[j].seq
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

func (w *world) at(t time.Time, run func()) {
	w.seq++
	heap.Push(&w.evs, event{t, w.seq, run})
}

func (w *world) fail(format string, args ...any) {
	if w.problem == "" {
		w.problem = fmt.Sprintf("after %v: ", w.now.Sub(w.base)) + fmt.Sprintf(format, args...)
	}
}

// driveSender does what a driver does after each event.
func (w *world) driveSender() {
	if w.senderDark {
		return
	}
	if b := w.s.AppendReply(w.now, nil); len(b) > 0 {
		w.send(&w.toR, b, w.arriveReceiver)
	}
	for {
		run := w.s.Due(w.now)
		if run.Blocks == 0 {
			break
		}
		if run.Block < 1 || run.Block+int64(run.Blocks)-1 > w.s.acked+w.s.window || run.Offset+run.Bytes > w.size {
			w.fail("run %+v outside the window or the file", run)
			return
		}
		n := run.Blocks
		if w.rng != nil && w.rng.Float64() < w.f.partial {
			n = 1 + w.rng.IntN(n)
		}
		left := run.Bytes
		for i := range n {
			blk := run.Block + int64(i)
			size := min(left, w.s.block)
			b := AppendHeader(make([]byte, 0, transfer.HeaderSize+size), blk, w.s.agreed.Rollover)
			b = append(b, content(run.Offset+int64(i)*w.s.block, size)...)
			left -= size
			w.send(&w.toR, b, w.arriveReceiver)
		}
		w.s.Sent(w.now, n)
	}
	w.watchPace()
	if d := w.s.Deadline(); !d.IsZero() && !d.Equal(w.sWake) {
		w.sWake = d
		w.at(w.wakes(d), func() {
			if w.senderDark {
				return
			}
			w.s.Expire(w.now)
			w.driveSender()
		})
	}
}

// watchPace checks that rounds of recovery are a round trip apart.
func (w *world) watchPace() {
	if b := w.s.recovery.began; b != w.began {
		if gap := b.Sub(w.began); !w.began.IsZero() && gap < 2*w.f.delay {
			w.fail("two rewinds %v apart on a path of %v", gap, 2*w.f.delay)
		}
		w.began = b
	}
}

// wakes returns when a driver that waits until d checks its machine.
func (w *world) wakes(d time.Time) time.Time {
	if wait := d.Sub(w.now); w.f.tick > 0 && wait > 0 {
		return w.now.Add((wait + w.f.tick - 1) / w.f.tick * w.f.tick)
	}
	return d
}

func (w *world) driveReceiver() {
	if w.recvDark {
		return
	}
	if b := w.r.AppendReply(w.now, nil); len(b) > 0 {
		if transfer.OpcodeOf(b) == transfer.Acknowledgement && w.r.whole() && w.r.acked == w.r.last && !w.published {
			w.fail("last ACK before the file is stored")
		}
		w.send(&w.toS, b, w.arriveSender)
	}
	if d := w.r.Deadline(); !d.IsZero() && !d.Equal(w.rWake) {
		w.rWake = d
		w.at(w.wakes(d), func() {
			if w.recvDark {
				return
			}
			w.r.Expire(w.now)
			w.driveReceiver()
		})
	}
}

func (w *world) arriveSender(b []byte) {
	if w.senderDark {
		return
	}
	if op := transfer.OpcodeOf(b); op == transfer.ReadRequest {
		if w.serverUp {
			w.s.Repeat(w.now)
		} else {
			w.serverUp = true
			q := mustParse(b)
			if w.oldServer {
				q.Offer = transfer.Options{}
			}
			w.s.Answer(w.now, Agree(w.limits, q, w.size), w.size)
			if w.cautious > 0 {
				w.s.Cautious(w.cautious)
			}
		}
	} else {
		w.s.Handle(w.now, b)
	}
	w.driveSender()
}

func (w *world) arriveReceiver(b []byte) {
	if w.recvDark {
		return
	}
	if op := transfer.OpcodeOf(b); op == transfer.WriteRequest {
		if w.serverUp {
			w.r.Repeat(w.now)
		} else {
			w.serverUp = true
			q := mustParse(b)
			if w.oldServer {
				q.Offer = transfer.Options{}
			}
			w.r.Answer(w.now, q.Mode, Agree(w.limits, q, -1))
		}
	} else if done, _ := w.r.Done(); done && w.r.Deadline().IsZero() {
		return // the server has forgotten the transfer
	} else if c := w.r.Handle(w.now, b); len(c.Data) > 0 || c.Last {
		w.keep(c)
	}
	w.driveReceiver()
}

func mustParse(b []byte) transfer.Request {
	q, err := ParseRequest(b)
	if err != nil {
		panic(err)
	}
	return q
}

// keep acts as the store: it checks each chunk and confirms it, perhaps later.
func (w *world) keep(c Chunk) {
	if w.lastSeen {
		w.fail("chunk at %d after the file was whole", c.Offset)
	}
	if c.Offset+int64(len(c.Data)) > w.size {
		w.fail("chunk beyond the file's end")
		return
	}
	if !bytes.Equal(c.Data, content(c.Offset, int64(len(c.Data)))) {
		w.fail("wrong bytes in the chunk at %d", c.Offset)
		return
	}
	blk := c.Offset / w.r.block
	if w.stored[blk] {
		w.fail("block %d delivered twice", blk+1)
	}
	w.stored[blk] = true
	w.storedN += int64(len(c.Data))
	w.lastSeen = c.Last
	done := func() {
		if w.storing--; w.storing == 0 {
			w.published = w.lastSeen
			w.r.Stored(w.now)
			w.driveReceiver()
		}
	}
	w.storing++
	if w.f.slowStore == 0 {
		w.storing--
		w.published = w.lastSeen
		w.r.Stored(w.now)
		return
	}
	w.at(w.now.Add(time.Duration(w.rng.Int64N(int64(w.f.slowStore)))), done)
}

// begin sends the request.
func (w *world) begin() {
	w.base = time.Unix(1_000_000, 0)
	w.now = w.base
	w.req.Write = w.client
	blk := int64(transfer.MinBlockSize)
	w.stored = make([]bool, w.size/blk+2)
	if w.client {
		w.req.Offer.Size = w.size
		w.s.Request(w.now, w.req, w.size)
		w.driveSender()
	} else {
		w.r.Request(w.now, w.req)
		if w.noReorder {
			w.r.DropOutOfOrder()
		}
		w.driveReceiver()
	}
	if w.f.vanish > 0 {
		w.at(w.now.Add(w.f.vanish), func() {
			w.senderDark, w.recvDark = w.f.senderVanishes, !w.f.senderVanishes
		})
	}
}

// run runs the world until nothing more happens.
func (w *world) run() {
	w.begin()
	for w.evs.Len() > 0 && w.problem == "" {
		e := heap.Pop(&w.evs).(event)
		w.now = e.at
		e.run()
		if w.watch != nil {
			w.watch()
		}
		needed := 2*(w.size/int64(max(w.req.Offer.BlockSize, transfer.MinBlockSize))+1) + 10
		if w.oldServer {
			needed = 2*(w.size/transfer.DefaultBlockSize+1) + 10
		}
		if w.sentTotal > 12*needed+2000 {
			w.fail("%d packets where some %d are needed", w.sentTotal, needed)
		}
		if w.now.Sub(w.base) > time.Hour {
			w.fail("not done in an hour")
		}
		if done, err := w.s.Done(); done && err == nil && !w.s.stats.Unconfirmed && !w.published {
			w.fail("sender done before the file is stored")
		}
	}
	if w.problem == "" {
		w.judge()
	}
}

// judge checks the outcome of the transfer.
func (w *world) judge() {
	sDone, sErr := w.s.Done()
	rDone, rErr := w.r.Done()
	if !w.s.Deadline().IsZero() && !w.senderDark || !w.r.Deadline().IsZero() && !w.recvDark {
		w.fail("an end still waits, but nothing is left to happen")
	}
	if w.f.vanish > 0 {
		// The remaining end must notice that its peer has vanished, unless it never started.
		if !w.senderDark && w.s.phase != senderIdle && !sDone || !w.recvDark && w.r.phase != receiverIdle && !rDone {
			w.fail("an end never noticed that its peer vanished")
		}
		return
	}
	if rErr != nil || !rDone {
		// With heavy loss it is possible that no copy of a request gets an answer.
		if errors.Is(rErr, transfer.ErrSilent) && w.f.loss > 0.04 && !w.r.heard ||
			w.f.loss > 0.04 && !w.client && !w.s.heard && errors.Is(sErr, transfer.ErrSilent) ||
			w.r.phase == receiverIdle && errors.Is(sErr, transfer.ErrSilent) {
			return
		}
		w.fail("receiver: done %v, %v (sender: %v, %v)", rDone, rErr, sDone, sErr)
		return
	}
	if !w.published {
		w.fail("receiver done, but the file is not stored")
	}
	if w.storedN != w.size {
		w.fail("stored %d of %d bytes", w.storedN, w.size)
	}
	if w.r.Received() != w.size {
		w.fail("received %d of %d bytes", w.r.Received(), w.size)
	}
	if !sDone {
		w.fail("sender is not done")
	}
	// If all last ACKs of a client are lost while it dallies, the server cannot know that the
	// client is done. But a client that sends must know that the server is done.
	lossy := w.f.loss > 0 || w.dropNth != nil
	if sErr != nil && (!lossy || w.client && w.f.loss < 0.04) {
		w.fail("sender: %v", sErr)
	}
}

// randomWorld makes a random world from a seed. Each fault is absent in half of the worlds.
func randomWorld(seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &world{rng: rng}
	some := func() bool { return rng.IntN(2) == 0 }
	w.f.delay = time.Duration(50+rng.IntN(20_000)) * time.Microsecond
	if some() {
		w.f.loss = []float64{0.001, 0.01, 0.02, 0.05, 0.1}[rng.IntN(5)]
	}
	if some() {
		w.f.dup = 0.05 * rng.Float64()
	}
	if some() {
		w.f.reorder = 0.05 * rng.Float64()
	}
	if some() {
		w.f.jitter = time.Duration(1 + rng.Int64N(int64(w.f.delay)))
	}
	if some() {
		w.f.partial = 0.3
	}
	if some() {
		w.f.slowStore = time.Duration(1 + rng.Int64N(int64(30*time.Millisecond)))
	}
	if rng.IntN(8) == 0 {
		w.f.vanish = time.Duration(1 + rng.Int64N(int64(2*time.Second)))
		w.f.senderVanishes = some()
	}
	if some() {
		w.f.bandwidth = 100_000 + rng.Int64N(10_000_000)
		if some() {
			w.f.queue = 4 + rng.IntN(60)
		}
	}
	w.client = some()
	if some() {
		w.req.Mode = transfer.Netascii // the receiver then accepts blocks only in order
	}
	w.req.Name = "f"
	w.req.Offer.BlockSize = 8 + rng.IntN(64)
	w.req.Offer.Window = []int{1, 2, 3, 4, 8, 16, 64, 256}[rng.IntN(8)]
	w.req.Offer.HasSize = some()
	w.req.Offer.Rollover = transfer.Rollover(rng.IntN(3))
	if some() {
		w.limits.Window = 1 + rng.IntN(64)
	}
	blocks := int64(1 + rng.IntN(400))
	if rng.IntN(60) == 0 {
		blocks = 65_530 + rng.Int64N(20) // beyond the largest block number
		w.req.Mode = transfer.Octet
		w.f.loss = min(w.f.loss, 0.02)
		w.req.Offer.BlockSize = 8
		w.req.Offer.Window = 64 + rng.IntN(192)
		w.limits.Window = 0
	}
	w.size = (blocks-1)*int64(w.req.Offer.BlockSize) + rng.Int64N(int64(w.req.Offer.BlockSize))
	if rng.IntN(10) == 0 {
		w.oldServer = true
	}
	if some() {
		w.cautious = 1 + rng.Int64N(2000)
	}
	return w
}
