package pipeline

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/golden"
)

const (
	sshChunk = 255 << 10 // the size that OpenSSH's server announces by limits@openssh.com
	mib      = 1 << 20
)

// tableRates and tablePaths are the rows and columns of the table.
var tableRates = []struct {
	name string
	rate int64 // bytes per second
}{
	{"100 Mb/s", 12_500_000},
	{"1 Gb/s", 125_000_000},
	{"10 Gb/s", 1_250_000_000},
}

var tablePaths = []struct {
	name string
	path path
}{
	{"0, server 0.5 ms", path{service: 500 * time.Microsecond}},
	{"0.2 ms", path{rtt: 200 * time.Microsecond}},
	{"9 ms", path{rtt: 9 * time.Millisecond}},
	{"20 ms", path{rtt: 20 * time.Millisecond}},
	{"100 ms", path{rtt: 100 * time.Millisecond}},
}

// TestThroughput compares simulated transfers with a table. It shows which percentage of a link they
// use, depending on the rate of the link, its round trip, and the maximum number of sessions. Because
// time is virtual, the result depends only on the code. So a difference means that the behaviour has
// changed: check whether that is right, and then use -update.
//
// Independently of the table, a long transfer must reach 95 % of the rate that the link, its sessions
// and the ceiling allow. It must not have more in flight than four bandwidth-delay products, or than
// the floor if that is more.
func TestThroughput(t *testing.T) {
	skipUnderRace(t)
	var b strings.Builder
	fmt.Fprintf(&b, "Percent of the link that 256 MiB reach, and that a longer file fills later; peak in flight, MiB; sessions opened.\n")
	fmt.Fprintf(&b, "Requests of 255 KiB, 2 MiB on a session, 3 round trips to open one.\n")
	for _, r := range tableRates {
		fmt.Fprintf(&b, "\n%-18s%24s%24s%24s\n", r.name, "1 session", "up to 8", "up to 32")
		for _, p := range tablePaths {
			fmt.Fprintf(&b, "%-18s", p.name)
			for _, sessions := range []int{1, 8, 32} {
				way := p.path
				way.rate, way.opening = r.rate, 3
				short := measure(t, way, sessions, 256*mib)
				long := measureLong(t, way, sessions)
				peak, most := max(short.peak, long.peak), max(short.sessions, long.sessions)
				fmt.Fprintf(&b, "%24s", fmt.Sprintf("%d %d %% %d.%d %d", short.percent(), long.filled, peak/mib, peak*10/mib%10, most))
				// The sessions and the ceiling allow this many bytes in each round trip. To the round
				// trip, add the times for which one request is on the wire and one is at the server.
				chunks := min(int64(sessions)*DefaultSessionBytes/sshChunk*sshChunk, DefaultMaxBytes)
				trip := way.rtt + transmission(sshChunk, r.rate) + way.service
				bound := min(mulDiv(chunks, 100*int64(time.Second), int64(trip))/r.rate, 100)
				if way.service > 0 {
					bound = min(bound, mulDiv(int64(long.sessions)*sshChunk, 100*int64(time.Second), int64(way.service))/r.rate)
				}
				if long.filled < bound*95/100 {
					t.Errorf("%s, %s, %d sessions: %d %%, and not 95 %% of %d", r.name, p.name, sessions, long.filled, bound)
				}
				if need := max(4*mulDiv(r.rate, int64(trip), int64(time.Second)), DefaultMinBytes); peak > need {
					t.Errorf("%s, %s, %d sessions: %d bytes in flight, where %d are plenty", r.name, p.name, sessions, peak, need)
				}
			}
			b.WriteString("\n")
		}
	}
	golden.Compare(t, "throughput.txt", b.String())
}

// A result describes a simulated transfer.
type result struct {
	size, rate int64
	took       time.Duration
	peak       int64
	sessions   int
	stats      Stats
	filled     int64 // percentage of the link that was used after the ramp
}

func (r result) percent() int64 {
	return mulDiv(r.size, 100*int64(time.Second), int64(r.took)) / r.rate
}

// measure moves a file of size bytes. The number of sessions is at most `sessions`.
func measure(t *testing.T, p path, sessions int, size int64) result {
	t.Helper()
	w := newWorld(p, Limits{Sessions: sessions})
	w.rng = rand.New(rand.NewPCG(1, 1))
	return w.measure(t, Config{Size: size, Chunk: sshChunk, Repeat: true})
}

// measureLong moves as many bytes as the link can move in six seconds. The number of sessions is at
// most `sessions`.
func measureLong(t *testing.T, p path, sessions int) result {
	t.Helper()
	w := newWorld(p, Limits{Sessions: sessions})
	w.rng = rand.New(rand.NewPCG(1, 1))
	late := w.meter(3*time.Second, 5*time.Second)
	r := w.measure(t, Config{Size: 6 * p.rate, Chunk: sshChunk, Repeat: true})
	r.filled = late.percent(p.rate)
	return r
}

// measure moves one file over the world's path, and returns the result.
func (w *world) measure(t *testing.T, c Config) result {
	t.Helper()
	c.Link = w.link
	f := &simFile{p: New(c), size: c.Size}
	w.files = append(w.files, f)
	w.run()
	if w.problem == "" && (!f.p.Done() || f.p.Outstanding() > 0) {
		w.fail("not done")
	}
	if w.problem != "" {
		t.Fatalf("%+v, %+v: %s", w.path, c, w.problem)
	}
	return result{size: c.Size, rate: w.path.rate, took: f.done.Sub(w.base), peak: w.peak, sessions: w.most, stats: f.p.Stats()}
}
