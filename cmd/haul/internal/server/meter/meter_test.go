package meter

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
)

var peer = netip.MustParseAddrPort("192.0.2.7:2070")

// wantMetrics compares the named families with the expected text format.
func wantMetrics(t *testing.T, r *Registry, want string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(r.Gatherer(), strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

// text returns all metrics in the text format.
func text(t *testing.T, r *Registry) string {
	t.Helper()
	all, err := r.Gatherer().Gather()
	if err != nil {
		t.Error(err)
	}
	var b strings.Builder
	for _, family := range all {
		if _, err := expfmt.MetricFamilyToText(&b, family); err != nil {
			t.Error(err)
		}
	}
	return b.String()
}

// value returns the value of one series, named as in the text format.
func value(t *testing.T, r *Registry, series string) float64 {
	t.Helper()
	all := text(t, r)
	var v float64
	_, rest, ok := strings.Cut(all, "\n"+series+" ")
	if _, err := fmt.Sscan(rest, &v); !ok || err != nil {
		t.Errorf("there is no %s in\n%s", series, all)
	}
	return v
}

func TestTransfers(t *testing.T) {
	r := New(Config{})
	r.Begin(Info{Protocol: TFTP}).End(End{
		Result: Done, Bytes: 1000, Duration: 20 * time.Millisecond, RTT: 300 * time.Microsecond,
		Sent: 12, Resent: 2, Duplicates: 1, Timeouts: 3,
	})
	r.Begin(Info{Protocol: TFTP}).End(End{Result: PeerSilent, Bytes: 500, Duration: time.Minute, Sent: 7})
	r.Begin(Info{Protocol: TFTP, Write: true}).End(End{Result: Unconfirmed, Bytes: 5 << 20, Duration: 2 * time.Second, Received: 9})
	r.Begin(Info{Protocol: TFTP})
	r.Refuse(TFTP, Busy, 1)
	r.Refuse(TFTP, Busy, 1)
	r.Refuse(TFTP, "mood", 3)
	if got := r.Refused(TFTP); !maps.Equal(got, map[Reason]int64{Busy: 2, other: 3}) || len(r.Refused(SFTP)) > 0 || len((*Registry)(nil).Refused(TFTP)) > 0 {
		t.Errorf("refused are %v", got)
	}

	for series, want := range map[string]float64{
		`haul_transfers_total{direction="read",protocol="tftp",result="done"}`:         1,
		`haul_transfers_total{direction="read",protocol="tftp",result="peer silent"}`:  1,
		`haul_transfers_total{direction="write",protocol="tftp",result="unconfirmed"}`: 1,
		`haul_transfers_total{direction="write",protocol="tftp",result="failed"}`:      0,
		`haul_transfers_live{direction="read",protocol="tftp"}`:                        1,
		`haul_transfers_live{direction="write",protocol="tftp"}`:                       0,
		`haul_refused_total{protocol="tftp",reason="busy"}`:                            2,
		`haul_refused_total{protocol="tftp",reason="rate"}`:                            0,
		`haul_transfers_unlisted_total`:                                                0,
	} {
		if got := value(t, r, series); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	wantMetrics(t, r, `
# HELP haul_bytes_total Bytes of files moved, by transfers under way too.
# TYPE haul_bytes_total counter
haul_bytes_total{direction="read",protocol="tftp"} 1500
haul_bytes_total{direction="write",protocol="tftp"} 5.24288e+06
# HELP haul_duplicates_total Datagrams received that had come before.
# TYPE haul_duplicates_total counter
haul_duplicates_total{direction="read",protocol="tftp"} 1
haul_duplicates_total{direction="write",protocol="tftp"} 0
# HELP haul_packets_received_total Datagrams received by transfers that have ended.
# TYPE haul_packets_received_total counter
haul_packets_received_total{direction="write",protocol="tftp"} 9
# HELP haul_packets_sent_total Datagrams sent by transfers that have ended, those sent again included.
# TYPE haul_packets_sent_total counter
haul_packets_sent_total{direction="read",protocol="tftp"} 19
haul_packets_sent_total{direction="write",protocol="tftp"} 0
# HELP haul_resends_total Datagrams of those sent that had been sent before.
# TYPE haul_resends_total counter
haul_resends_total{direction="read",protocol="tftp"} 2
haul_resends_total{direction="write",protocol="tftp"} 0
# HELP haul_timeouts_total Times that the timer of a transfer ran out.
# TYPE haul_timeouts_total counter
haul_timeouts_total{direction="read",protocol="tftp"} 3
haul_timeouts_total{direction="write",protocol="tftp"} 0
`, "haul_bytes_total", "haul_packets_sent_total", "haul_packets_received_total", "haul_resends_total", "haul_duplicates_total", "haul_timeouts_total")
	for series, want := range map[string]float64{
		`haul_round_trip_seconds_count{direction="read",protocol="tftp"}`: 1, // one transfer measured none
		`haul_round_trip_seconds_sum{direction="read",protocol="tftp"}`:   .0003,
		// One transfer did not move the whole file.
		`haul_transfer_duration_seconds_count{direction="read",protocol="tftp"}`: 1,
		`haul_transfer_duration_seconds_sum{direction="read",protocol="tftp"}`:   .02,
		`haul_transfer_size_bytes_sum{direction="read",protocol="tftp"}`:         1000,
		`haul_transfer_size_bytes_sum{direction="write",protocol="tftp"}`:        5 << 20,
	} {
		if got := value(t, r, series); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
}

// The bytes of a transfer under way are in the counter, each only once.
func TestBytesWhileUnderWay(t *testing.T) {
	const series = `haul_bytes_total{direction="write",protocol="sftp"}`
	r := New(Config{})
	x := r.Begin(Info{Protocol: SFTP, Write: true})
	for _, step := range []struct {
		name string
		do   func()
		want float64
	}{
		{"nothing yet", func() {}, 0},
		{"add", func() { x.Add(100) }, 100},
		{"read twice", func() {}, 100},
		{"add again", func() { x.Add(50) }, 150},
		{"nothing and less", func() { x.Add(0); x.Add(-40); x.Add(math.MinInt64) }, 150},
		{"reach", func() { x.Reached(400) }, 400},
		{"reach less", func() { x.Reached(10); x.Reached(-1) }, 400},
		{"end with less", func() { x.End(End{Result: Failed, Bytes: 7}) }, 400},
		{"end again", func() { x.End(End{Result: Done, Bytes: 9000, Sent: 5}) }, 400},
		{"add after the end", func() { x.Add(1000) }, 400},
	} {
		step.do()
		if got := value(t, r, series); got != step.want {
			t.Errorf("%s: %v bytes, want %v", step.name, got, step.want)
		}
	}
	if got := value(t, r, `haul_transfers_total{direction="write",protocol="sftp",result="done"}`); got != 0 {
		t.Errorf("the second End counted %v times", got)
	}
	if got := value(t, r, `haul_transfers_live{direction="write",protocol="sftp"}`); got != 0 {
		t.Errorf("%v transfers under way, want none", got)
	}
}

// No number that a caller can give makes the library panic.
func TestNonsense(t *testing.T) {
	r := New(Config{Version: "\xff\x00", Protocols: []Protocol{"", "\xff"}})
	for _, n := range []int64{math.MinInt64, -1, math.MaxInt64} {
		r.Begin(Info{Name: "\xff"}).End(End{
			Result: Done, Bytes: n, Duration: time.Duration(n), RTT: time.Duration(n),
			Sent: n, Received: n, Resent: n, Duplicates: n, Timeouts: n,
		})
	}
	if got := value(t, r, `haul_transfers_total{direction="read",protocol="other",result="done"}`); got != 3 {
		t.Errorf("%v transfers, want 3", got)
	}
	if got := value(t, r, `haul_packets_sent_total{direction="read",protocol="other"}`); got != math.MaxInt64 {
		t.Errorf("%v packets, want the largest number once", got)
	}
	if all := text(t, r); !utf8.ValidString(all) {
		t.Error("the metrics are not UTF-8")
	}
}

// A duration that the caller leaves out is measured.
func TestMeasuredDuration(t *testing.T) {
	r := New(Config{})
	r.Begin(Info{Protocol: HTTP, Began: time.Now().Add(-time.Hour)}).End(End{Result: Done})
	sum := value(t, r, `haul_transfer_duration_seconds_sum{direction="read",protocol="http"}`)
	if sum < 3600 {
		t.Errorf("took %v s, want an hour or more", sum)
	}
}

// Whatever packets strangers send, the number of time series is bounded, and no series shows their
// content.
func TestCardinality(t *testing.T) {
	r := New(Config{})
	before := seriesOfRuntime(t)
	for i := range 300 {
		word := fmt.Sprintf("evil%d", i)
		all := slices.Concat(protocols, []Protocol{Protocol(word)})
		for _, p := range all {
			for _, write := range []bool{false, true} {
				x := r.Begin(Info{Protocol: p, Write: write, Name: word, Peer: netip.AddrPortFrom(peer.Addr(), uint16(i))})
				x.End(End{Result: Result(word), Sent: 1, Received: 1, Resent: 1, Duplicates: 1, Timeouts: 1, RTT: 1})
			}
			r.Refuse(p, Reason(word), 1)
		}
	}
	got, err := testutil.GatherAndCount(r.Gatherer())
	if err != nil {
		t.Fatal(err)
	}
	pairs := (len(protocols) + 1) * 2
	bound := pairs*(len(results)+1) + // transfers_total
		pairs*(2+3+len(r.families.packets)) + // live, bytes; histograms; packets
		(len(protocols)+1)*(len(reasons)+1) // refused_total
	if got -= before; got != bound {
		t.Errorf("%d series, want %d", got, bound)
	}
	if all := text(t, r); strings.Contains(all, "evil") || strings.Contains(all, peer.Addr().String()) {
		t.Error("a peer's words are among the metrics")
	}
	if got := value(t, r, `haul_refused_total{protocol="other",reason="other"}`); got != 300 {
		t.Errorf("%v refusals of other protocols for other reasons, want 300", got)
	}
}

// seriesOfRuntime returns the number of series before any transfer.
func seriesOfRuntime(t *testing.T) int {
	t.Helper()
	n, err := testutil.GatherAndCount(New(Config{}).Gatherer())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The names, types and help texts follow the conventions of Prometheus.
func TestLint(t *testing.T) {
	r := New(Config{Version: "v1", Protocols: slices.Concat(protocols, []Protocol{"x"})})
	r.Begin(Info{}).End(End{Result: Done, RTT: 1, Sent: 1, Received: 1})
	r.Counter("strays_total", "Datagrams that belonged to no transfer.", func() int64 { return 3 })
	r.Gauge("pool_bytes", "Memory that waits for transfers.", func() float64 { return 4.5 })
	problems, err := testutil.GatherAndLint(r.Gatherer())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	wantMetrics(t, r, `
# HELP haul_pool_bytes Memory that waits for transfers.
# TYPE haul_pool_bytes gauge
haul_pool_bytes 4.5
# HELP haul_strays_total Datagrams that belonged to no transfer.
# TYPE haul_strays_total counter
haul_strays_total 3
`, "haul_pool_bytes", "haul_strays_total")
}

func TestNamesThatCannotBe(t *testing.T) {
	r := New(Config{})
	r.Counter("a_total", "A.", func() int64 { return 0 })
	for _, name := range []string{"a_total", "transfers_live", "\xff"} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			r.Gauge(name, "Another.", func() float64 { return 0 })
		})
	}
}

func TestNil(t *testing.T) {
	var r *Registry
	x := r.Begin(Info{Protocol: TFTP, Peer: peer})
	if x != nil {
		t.Error("a nil Registry has begun a transfer")
	}
	x.Add(1)
	x.Reached(2)
	x.End(End{Result: Done})
	r.Refuse(TFTP, Busy, 1)
	r.Counter("x", "X.", nil)
	r.Gauge("x", "X.", nil)
	for range r.Live() {
		t.Error("a nil Registry lists a transfer")
	}
	if n, err := testutil.GatherAndCount(r.Gatherer()); n != 0 || err != nil {
		t.Errorf("a nil Registry has %d metrics, %v", n, err)
	}
}

// With everything at once, the sums are exact, and bytes never decrease.
func TestConcurrent(t *testing.T) {
	const workers, each, chunk = 8, 200, 3
	r := New(Config{Protocols: []Protocol{TFTP}})
	var work, watch sync.WaitGroup
	stop := make(chan struct{})
	const series = `haul_bytes_total{direction="read",protocol="tftp"}`
	watch.Go(func() {
		for last := 0.0; ; {
			select {
			case <-stop:
				return
			default:
			}
			now := value(t, r, series)
			if now < last {
				t.Errorf("bytes went from %v back to %v", last, now)
			}
			last = now
			for s := range r.Live() {
				if s.Bytes < 0 || s.Bytes > 2*chunk {
					t.Errorf("transfer %d has %d bytes", s.ID, s.Bytes)
				}
			}
		}
	})
	for range workers {
		work.Go(func() {
			for i := range each {
				x := r.Begin(Info{Protocol: TFTP, Peer: peer})
				x.Add(chunk)
				x.Reached(2 * chunk)
				x.End(End{Result: results[i%len(results)], Sent: 2, RTT: time.Millisecond})
				r.Refuse(SFTP, Rate, 1)
			}
		})
	}
	work.Wait()
	close(stop)
	watch.Wait()
	for series, want := range map[string]float64{
		series: workers * each * 2 * chunk,
		`haul_transfers_live{direction="read",protocol="tftp"}`:                0,
		`haul_transfers_total{direction="read",protocol="tftp",result="done"}`: workers * each / 8,
		`haul_packets_sent_total{direction="read",protocol="tftp"}`:            workers * each * 2,
		`haul_refused_total{protocol="sftp",reason="rate"}`:                    workers * each,
	} {
		if got := value(t, r, series); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
}

// The methods called for every packet allocate nothing.
func TestAllocations(t *testing.T) {
	r := New(Config{})
	x := r.Begin(Info{Protocol: TFTP})
	var total int64
	for name, f := range map[string]func(){
		"Add":     func() { x.Add(1) },
		"Reached": func() { total += 10; x.Reached(total) },
		"Refuse":  func() { r.Refuse(TFTP, Busy, 1) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
