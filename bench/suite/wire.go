package suite

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/haul-project/haul/bench/suite/record"
)

// A wire counts the traffic of a device in the network namespace of a server. For any client,
// this shows when it was logged in, and how fast its data arrived. Over loopback it counts all
// programs of this machine.
type wire struct {
	counts *os.File
	device string
	column int      // of /proc/net/dev, with the bytes in the direction of the data
	first  crossing // when the watch began

	began   time.Time
	samples []sample // used only by the watching goroutine until it has ended
	stop    chan struct{}
	ended   sync.WaitGroup
}

// A sample is how much had crossed at a certain time.
type sample struct {
	at    time.Duration // since the beginning
	bytes int64
}

const (
	wireEvery  = 2 * time.Millisecond // between two samples
	maxSamples = 1 << 17              // four minutes

	// The data begins when this many bytes have crossed; everything before it needs less than a
	// third of that. It ends when all bytes but this many have crossed.
	beforeData = 16 << 10
	afterData  = 8 << 10

	// Columns of /proc/net/dev after the device's name.
	columnReceived = 0
	columnSent     = 8
	packetsBehind  = 1 // a column of packets follows each column of bytes
)

// watch begins to count the bytes that a server sends or receives.
func watch(pid int, linked, received bool) (*wire, error) {
	w := &wire{device: "lo", column: columnSent, stop: make(chan struct{})}
	if linked {
		w.device = "haul0"
	}
	if received {
		w.column = columnReceived
	}
	var err error
	if w.counts, err = os.Open(fmt.Sprintf("/proc/%d/net/dev", pid)); err != nil {
		return nil, fmt.Errorf("watch the wire: %w", err)
	}
	w.first, err = w.count()
	if err != nil {
		_ = w.counts.Close() // nothing was written
		return nil, fmt.Errorf("watch the wire: %w", err)
	}
	w.began = time.Now()
	w.ended.Go(func() {
		tick := time.NewTicker(wireEvery)
		defer tick.Stop()
		for len(w.samples) < maxSamples {
			select {
			case <-tick.C:
			case <-w.stop:
				return
			}
			n, err := w.count()
			if err != nil {
				return // the server has ended
			}
			w.samples = append(w.samples, sample{time.Since(w.began), n.bytes - w.first.bytes})
		}
	})
	return w, nil
}

// A crossing is the traffic of a device: bytes of one direction, packets of both.
type crossing struct{ bytes, packets int64 }

// count returns the traffic so far.
func (w *wire) count() (crossing, error) {
	b := make([]byte, 4096) // a few lines of some 120 bytes
	n, err := w.counts.ReadAt(b, 0)
	if n == 0 {
		return crossing{}, err
	}
	for line := range bytes.Lines(b[:n]) {
		name, rest, _ := strings.Cut(strings.TrimSpace(string(line)), ":")
		if fields := strings.Fields(rest); name == w.device && len(fields) > columnSent+packetsBehind {
			var c crossing
			var in, out int64
			_, err := fmt.Sscan(fields[w.column]+" "+fields[columnReceived+packetsBehind]+" "+fields[columnSent+packetsBehind], &c.bytes, &in, &out)
			c.packets = in + out
			return c, err
		}
	}
	return crossing{}, fmt.Errorf("there is no device %s", w.device)
}

// close ends the watch. It returns the samples, and how many packets have crossed since it began,
// or 0 if the server ended earlier.
func (w *wire) close() (samples []sample, packets int64) {
	close(w.stop)
	w.ended.Wait()
	if last, err := w.count(); err == nil {
		packets = last.packets - w.first.packets
	}
	_ = w.counts.Close() // nothing was written
	return w.samples, packets
}

// span returns when the data of a transfer began and ended, or false if too little has crossed to
// know.
func span(samples []sample) (from, to time.Duration, ok bool) {
	if len(samples) == 0 {
		return 0, 0, false
	}
	all := samples[len(samples)-1].bytes
	if all < 4*beforeData {
		return 0, 0, false
	}
	for _, s := range samples {
		if s.bytes >= beforeData && !ok {
			from, ok = s.at, true
		}
		if s.bytes >= all-afterData {
			return from, s.at, s.at > from
		}
	}
	return 0, 0, false
}

// series returns how much crossed in each step from the first data on, in MB.
func series(samples []sample) []float64 {
	from, to, ok := span(samples)
	if !ok {
		return nil
	}
	steps := int(min(to-from, record.SeriesTime)/record.SeriesStep) + 1
	all := make([]float64, min(steps, int(record.SeriesTime/record.SeriesStep)))
	last := int64(0)
	for _, s := range samples {
		if i := int((s.at - from) / record.SeriesStep); s.at >= from && i < len(all) {
			all[i] += float64(s.bytes-last) / 1e6
		}
		last = s.bytes
	}
	return all
}
