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

// A wire counts the traffic of a device in the network namespace of a server. So it can be measured
// for any client when it was logged in, and how fast its data arrived. Over loopback, a wire counts
// the traffic of all programs of this machine.
type wire struct {
	counts *os.File
	device string
	column int      // the column of /proc/net/dev that counts the bytes in the direction of the data
	first  crossing // the traffic when the watch began

	began   time.Time
	samples []sample // only the watching goroutine uses these until it has returned
	stop    chan struct{}
	ended   sync.WaitGroup
}

// A sample holds the number of bytes that had crossed the wire at a certain time.
type sample struct {
	at    time.Duration // time since the watch began
	bytes int64
}

const (
	wireEvery  = 2 * time.Millisecond // interval between two samples
	maxSamples = 1 << 17              // largest number of samples, enough for four minutes

	// The data of a transfer begins when beforeData bytes have crossed the wire. The bytes before
	// the data, such as those of the login, are less than a third of that. The data ends when only
	// afterData bytes are still missing.
	beforeData = 16 << 10
	afterData  = 8 << 10

	// These are columns of /proc/net/dev, counted from the one after the device's name.
	columnReceived = 0
	columnSent     = 8
	packetsBehind  = 1 // the column that counts packets follows the column that counts bytes
)

// watch begins to count the bytes that a server sends or, if `received` is set, receives. `linked`
// says that the server uses an emulated link.
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
		_ = w.counts.Close() // the file was only read, so an error does not matter
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
				return // the server has exited
			}
			w.samples = append(w.samples, sample{time.Since(w.began), n.bytes - w.first.bytes})
		}
	})
	return w, nil
}

// A crossing holds the traffic of a device: bytes in one direction, packets in both.
type crossing struct{ bytes, packets int64 }

// count returns the traffic of the device so far.
func (w *wire) count() (crossing, error) {
	b := make([]byte, 4096) // the file has a few lines of some 120 bytes
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

// close ends the watch. It returns the samples, and the number of packets since the watch began, or
// 0 if the server has already exited.
func (w *wire) close() (samples []sample, packets int64) {
	close(w.stop)
	w.ended.Wait()
	if last, err := w.count(); err == nil {
		packets = last.packets - w.first.packets
	}
	_ = w.counts.Close() // the file was only read, so an error does not matter
	return w.samples, packets
}

// span returns when the data of a transfer began and ended. ok is false if too few bytes have
// crossed the wire to find that out.
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

// series returns how many MB crossed the wire in each SeriesStep, from the first data on.
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
