package transfer

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

// TestThroughput keeps a table of the throughput in virtual time, by link,
// window and loss. It depends on nothing but the code, so a difference is a
// change of the protocol's behaviour: look at it, then -update.
func TestThroughput(t *testing.T) {
	links := []struct {
		name      string
		bandwidth int64 // bytes a second
		rtt       time.Duration
	}{
		{"1 Gb/s, 0.14 ms", 125_000_000, 140 * time.Microsecond},
		{"100 Mb/s, 0.48 ms", 12_500_000, 480 * time.Microsecond},
		{"32 Mb/s, 10 ms", 4_000_000, 10 * time.Millisecond},
	}
	losses := []float64{0, 0.001, 0.01, 0.05}
	var b strings.Builder
	b.WriteString("MB/s (datagrams sent / needed) of 4 MB in blocks of 1432, by windowsize and loss each way\n")
	for _, l := range links {
		fmt.Fprintf(&b, "\n%-20s", l.name)
		for _, loss := range losses {
			fmt.Fprintf(&b, "%16v", loss)
		}
		b.WriteString("\n")
		for _, window := range []int{1, 4, 16, 64, 256} {
			fmt.Fprintf(&b, "%20d", window)
			for _, loss := range losses {
				rate, cost := measure(t, faults{bandwidth: l.bandwidth, delay: l.rtt / 2, loss: loss}, window)
				fmt.Fprintf(&b, "%9.2f (%.2f)", rate, cost)
			}
			b.WriteString("\n")
		}
	}
	golden(t, "throughput.txt", b.String())
}

// measure runs one read in virtual time, and returns MB/s until the sender
// knows that it is done, and datagrams sent for each that is needed.
func measure(t *testing.T, f faults, window int) (rate, cost float64) {
	w := &world{rng: rand.New(rand.NewPCG(1, 2)), f: f, size: 4_000_000}
	w.req = Request{Name: "f", Offer: Options{BlockSize: 1432, Window: window}}
	var took time.Duration
	w.watch = func() {
		if done, _ := w.s.Done(); done && took == 0 {
			took = w.now.Sub(w.base)
		}
	}
	w.run()
	if w.problem != "" {
		t.Fatalf("%+v, window %d: %s", f, window, w.problem)
	}
	blocks := w.size/1432 + 1
	needed := blocks + (blocks+int64(window)-1)/int64(window) + 3
	return float64(w.size) / 1e6 / took.Seconds(), float64(w.sentTotal) / float64(needed)
}

// golden compares text with a file in testdata, or rewrites that file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s differs (rewrite with -update if this is meant):\n%s", path, got)
	}
}
