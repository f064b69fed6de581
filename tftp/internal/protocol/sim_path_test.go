package protocol

import (
	"fmt"
	"sync"
	"time"
)

// overhead is the size of the IP and UDP headers of a datagram, in bytes.
const overhead = 28

type pipe struct {
	busyUntil time.Time
	leaving   []time.Time // when each packet in the queue leaves, in order
}

// full reports whether a queue with room for the given number of packets is full at the given time.
func (p *pipe) full(now time.Time, queue int) bool {
	if queue == 0 {
		return false
	}
	for len(p.leaving) > 0 && !p.leaving[0].After(now) {
		p.leaving = p.leaving[1:]
	}
	return len(p.leaving) >= queue
}

// send puts a datagram on the path.
func (w *world) send(p *pipe, b []byte, arrive func([]byte)) {
	w.sentTotal++
	w.nth++
	if *simTrace {
		to := "receiver"
		if p == &w.toS {
			to = "sender"
		}
		fmt.Printf("%12v to %-8s %x\n", w.now.Sub(w.base), to, b[:min(len(b), 24)])
	}
	copies := 1
	delay := w.f.delay
	if w.dropNth != nil {
		switch w.dropNth[w.nth] {
		case drop:
			return
		case duplicate:
			copies = 2
		case late:
			delay += w.f.delay + w.f.delay/2
		}
	} else {
		if w.rng.Float64() < w.f.loss {
			return
		}
		if w.rng.Float64() < w.f.dup {
			copies = 2
		}
	}
	leave := w.now
	if w.f.bandwidth > 0 {
		if p.full(w.now, w.f.queue) {
			return
		}
		if p.busyUntil.After(leave) {
			leave = p.busyUntil
		}
		leave = leave.Add(time.Duration(int64(len(b)+overhead) * int64(time.Second) / w.f.bandwidth))
		p.busyUntil = leave
		p.leaving = append(p.leaving, leave)
	}
	for range copies {
		d := delay
		if w.f.jitter > 0 {
			d += time.Duration(w.rng.Int64N(int64(w.f.jitter)))
		}
		if w.dropNth == nil && w.rng.Float64() < w.f.reorder {
			d += w.f.delay + time.Millisecond
		}
		w.at(leave.Add(d), func() { arrive(b) })
	}
}

// content returns n bytes of the file.
func content(off, n int64) []byte { return wholeContent()[off : off+n] }

var wholeContent = sync.OnceValue(func() []byte {
	b := make([]byte, 4_000_000) // the largest file of any test here
	for off := range b {
		b[off] = byte(off*7 + off>>8 + off>>16)
	}
	return b
})
