package link

import (
	"math"
	"math/rand/v2"
	"time"
)

// A way is one direction of a link, without a clock or a device. Its caller passes packets with
// their times, and it returns which packets are due, and when. All times are nanoseconds since a
// moment that the caller has chosen.
//
//	room := w.room()            // where to read a packet to
//	w.accept(now, shape, size)  // it arrived
//	at, any := w.next()         // when to call due
//	for {
//		p, any := w.due(now)    // what is due
//		...
//		w.settle(p)             // it has been handed over
//	}
type way struct {
	Way
	profile *Profile
	arena   arena
	free    int64 // when the wire will have sent all accepted packets
	last    int64 // when the last packet in `runs` is due
	runs    ring
	held    []run // packets that are held back so that others overtake them; a heap ordered by due
	loss    fate
	double  fate
	late    fate
	stats   WayStats
}

// A run is a sequence of consecutive wire packets of one record, due at equal intervals except
// for the last.
type run struct {
	due    int64 // when the first packet will have arrived
	step   int64 // interval between the packets, except before the last one
	end    int64 // when the last packet will have arrived
	record uint64
	first  int32
	count  int32
}

// dueAt returns when packet i of the run, counted from 0, will have arrived.
func (r *run) dueAt(i int32) int64 {
	if i >= r.count-1 {
		return r.end
	}
	return r.due + int64(i)*r.step
}

// A fate decides at random, from a seed, for each packet in turn, whether the packet is affected:
// whether it is lost, duplicated or held back.
type fate struct {
	below uint64 // a packet is affected if the next random number is smaller than this
	never bool
	rand  rand.PCG
}

func newFate(fraction float64, seed, stream uint64) fate {
	f := fate{never: fraction <= 0, below: math.MaxUint64, rand: *rand.NewPCG(seed, stream)}
	if fraction < 1 && !f.never {
		f.below = uint64(fraction * (1 << 63) * 2)
	}
	return f
}

func (f *fate) strikes() bool { return !f.never && f.rand.Uint64() < f.below }

const (
	maxRuns = 1 << 17 // capacity of way.runs: two runs for each record
	maxHeld = 1024    // largest number of packets that are held back; further ones are delivered in order

	// A packet that is held back lets as many full frames overtake it as overtakers says, and at
	// least all frames that arrive within minHeld.
	overtakers = 3
	minHeld    = 200 * time.Microsecond

	// Packets that arrive back to back are handed over together, up to this long after the first
	// of them and never before they are due; the last of a burst is always on time. Network cards
	// do the same to save interrupts, and it saves most of the emulator's time. A packet that
	// arrives more than backToBack after the one before is handed over alone.
	maxMerge   = 48 * time.Microsecond
	backToBack = 15 * time.Microsecond
)

// newWay makes the way for the packets that a side sends. `memory` is the memory for its packets.
// Until begin is called, the way passes all packets, once and in order.
func newWay(p *Profile, side Side, memory []byte) *way {
	w := &way{Way: p.Ways[side], profile: p, arena: newArena(memory, maxRecords)}
	w.runs = newRing(maxRuns)
	w.held = make([]run, 0, maxHeld)
	none := fate{never: true}
	w.loss, w.double, w.late = none, none, none
	return w
}

// begin enables loss, duplication and reordering, with the profile's seed.
func (w *way) begin(side Side) {
	// Each fate has its own random numbers, so that changing the fraction of one fate does not
	// change the others.
	stream := uint64(side) * 3
	w.loss = newFate(w.Loss, w.profile.Seed, stream)
	w.double = newFate(w.Duplicate, w.profile.Seed, stream+1)
	w.late = newFate(w.Reorder, w.profile.Seed, stream+2)
}

func (w *way) room() []byte { return w.arena.room() }

// accept takes over the packet in the first `size` bytes of room. The transmission of the packet
// began at the time `now`.
func (w *way) accept(now int64, s shape, size int) {
	number := w.arena.keep(s, size)
	record := w.arena.at(number)
	var open run // the current run of consecutive packets; there is no such run if its count is 0
	for i := range s.count {
		lost, double, late := w.loss.strikes(), w.double.strikes(), w.late.strikes()
		frame := w.profile.frame(s.wire(i))
		w.stats.Packets++
		w.stats.Bytes += uint64(s.wire(i))
		due, passed := w.transmit(now, frame)
		if passed && lost {
			w.stats.Lost++
		}
		if !passed || lost {
			w.push(&open, record)
			continue
		}
		if late && w.hold(run{due: due, step: 0, end: due, record: number, first: int32(i), count: 1}, record) {
			w.push(&open, record)
			continue
		}
		w.extend(&open, due, number, i)
		if double {
			w.stats.Duplicated++
			w.push(&open, record)
			w.extend(&open, due, number, i)
			w.push(&open, record)
		}
	}
	w.push(&open, record)
	w.arena.release() // forget the packet at once if none of its wire packets is to be delivered
}

// transmit puts a frame into the queue. It returns when the frame arrives at the other end, and
// false if the queue had no room for it.
func (w *way) transmit(now int64, frame int) (due int64, passed bool) {
	if w.Rate == 0 {
		w.last = max(w.last, now+int64(w.Delay))
		return w.last, true
	}
	begin := max(now, w.free)
	// The queue consists of the bytes that have been accepted but not sent yet at the rate, so no
	// list of it is needed.
	waiting := int(float64(begin-now)*float64(w.Rate)/8e9+0.5) + frame
	if waiting > w.queue() && begin > now {
		w.stats.QueueDrops++
		return 0, false
	}
	w.stats.MaxQueue = max(w.stats.MaxQueue, uint64(waiting))
	w.free = begin + int64(w.airtime(frame))
	w.last = max(w.last, w.free+int64(w.Delay))
	return w.last, true
}

// extend adds wire packet i to the run `open`. If that run is empty, the packet begins it.
func (w *way) extend(open *run, due int64, number uint64, i int) {
	if open.count == 0 {
		*open = run{due: due, end: due, record: number, first: int32(i), count: 1}
		return
	}
	if open.count == 1 {
		open.step = due - open.due
	}
	open.end = due
	open.count++
}

// push appends the run `open` to the queue of runs, and empties it.
func (w *way) push(open *run, r *record) {
	if open.count == 0 {
		return
	}
	if w.runs.push(*open) {
		r.open++
	} else {
		w.stats.Overflow += uint64(open.count)
	}
	open.count = 0
}

// hold holds a packet back until others have overtaken it. It returns false if too many packets are
// held back already.
func (w *way) hold(r run, record *record) bool {
	if len(w.held) == cap(w.held) {
		return false
	}
	wait := max(int64(minHeld), overtakers*int64(w.airtime(w.profile.frame(1500))))
	r.due += wait
	r.end = r.due
	record.open++
	w.stats.Reordered++
	w.held = append(w.held, r)
	for i := len(w.held) - 1; i > 0; { // move the new run up the heap
		parent := (i - 1) / 2
		if w.held[parent].due <= w.held[i].due {
			break
		}
		w.held[parent], w.held[i] = w.held[i], w.held[parent]
		i = parent
	}
	return true
}

// next returns the time at which to call due, so that each call hands over as many packets as
// possible.
func (w *way) next() (at int64, any bool) {
	if w.runs.empty() {
		if len(w.held) == 0 {
			return 0, false
		}
		return w.held[0].due, true
	}
	at = w.merged()
	if len(w.held) > 0 {
		at = min(at, w.held[0].due)
	}
	return at, true
}

// merged returns when the last of the back-to-back packets at the head of the queue will have
// arrived. If the first packet would wait too long for it, merged returns the time of an earlier
// packet.
func (w *way) merged() int64 {
	const maxLook = 64 // number of runs to look at; bounds the cost of this search
	head := w.runs.at(0)
	at, limit := head.due, head.due+int64(maxMerge)
	for k := range min(w.runs.len(), maxLook) {
		r := w.runs.at(k)
		if r.due > limit || r.due-at > int64(backToBack) {
			return at
		}
		if r.end > limit || r.step > int64(backToBack) {
			if r.step > 0 && r.step <= int64(backToBack) {
				return r.dueAt(min(int32((limit-r.due)/r.step), r.count-2))
			}
			return r.due
		}
		at = r.end
	}
	return at
}

// A piece is a group of wire packets of one record that are handed over at once.
type piece struct {
	record       uint64
	first, count int
	due          int64 // when the last packet of the piece has arrived
	finished     bool  // the run of the piece has no further packets
}

// due returns the next piece of the packets that have arrived by the time `now`. any is false if
// there is no such packet.
func (w *way) due(now int64) (p piece, any bool) {
	if len(w.held) > 0 && w.held[0].due <= now && (w.runs.empty() || w.held[0].due <= w.runs.at(0).due) {
		r := w.unhold()
		return piece{r.record, int(r.first), 1, r.due, true}, true
	}
	if w.runs.empty() || w.runs.at(0).due > now {
		return piece{}, false
	}
	r := w.runs.at(0)
	if r.end <= now {
		p = piece{r.record, int(r.first), int(r.count), r.end, true}
		w.runs.pop()
		return p, true
	}
	count := r.count - 1
	if r.step > 0 {
		count = min(count, int32((now-r.due)/r.step)+1)
	}
	p = piece{record: r.record, first: int(r.first), count: int(count), due: r.dueAt(count - 1)}
	r.due = r.dueAt(count)
	r.first += count
	r.count -= count
	return p, true
}

// unhold removes and returns the packet that is due first among those that are held back.
func (w *way) unhold() run {
	first, last := w.held[0], len(w.held)-1
	w.held[0] = w.held[last]
	w.held = w.held[:last]
	for i := 0; ; { // move the run at the top down the heap
		child := 2*i + 1
		if child >= last {
			return first
		}
		if child+1 < last && w.held[child+1].due < w.held[child].due {
			child++
		}
		if w.held[i].due <= w.held[child].due {
			return first
		}
		w.held[i], w.held[child] = w.held[child], w.held[i]
		i = child
	}
}

// settle counts a piece as handed over, and forgets packets that are no longer needed.
func (w *way) settle(p piece) {
	w.stats.Delivered += uint64(p.count)
	w.forget(p)
}

// refuse counts a piece as refused by the receiving device, and forgets packets that are no longer
// needed.
func (w *way) refuse(p piece) {
	w.stats.Refused += uint64(p.count)
	w.forget(p)
}

func (w *way) forget(p piece) {
	if p.finished {
		w.arena.at(p.record).open--
		w.arena.release()
	}
}
