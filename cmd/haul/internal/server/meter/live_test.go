package meter

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"
)

func TestLive(t *testing.T) {
	r := New(Config{})
	long := strings.Repeat("é", maxName)
	began := time.Unix(1, 0)
	a := r.Begin(Info{Protocol: TFTP, Peer: peer, Name: "a", Began: began})
	b := r.Begin(Info{Protocol: TFTP, Write: true, Peer: peer, Name: "x" + long})
	a.Add(5)
	got := slices.SortedFunc(r.Live(), func(x, y Snapshot) int { return int(x.ID) - int(y.ID) })
	if len(got) != 2 {
		t.Fatalf("%d transfers under way, want 2", len(got))
	}
	want := Snapshot{ID: 1, Info: Info{Protocol: TFTP, Peer: peer, Name: "a", Began: began}, Bytes: 5}
	if got[0] != want {
		t.Errorf("got %+v, want %+v", got[0], want)
	}
	if n := got[1].Name; len(n) > maxName || !utf8.ValidString(n) || !strings.HasPrefix(long, n[1:]) {
		t.Errorf("the long name became %q", n)
	}
	if got[1].Began.IsZero() {
		t.Error("Began is zero")
	}
	a.End(End{})
	a.End(End{})
	for s := range r.Live() {
		if s.ID != 2 {
			t.Errorf("transfer %d is still listed", s.ID)
		}
	}
	b.End(End{})
	for s := range r.Live() {
		t.Errorf("transfer %d is still listed", s.ID)
	}
}

// A protocol is asked for its measurements when the transfers are listed.
func TestMeasure(t *testing.T) {
	r := New(Config{})
	var way Way
	x := r.Begin(Info{Protocol: TFTP, Size: 9})
	x.Measure(func() Way { return way })
	for _, want := range []Way{{}, {RTT: time.Millisecond, Window: 4, Resent: 2}} {
		way = want
		for s := range r.Live() {
			if s.Way != want || s.Size != 9 {
				t.Errorf("%+v, want %+v", s, want)
			}
		}
	}
	x.End(End{})
	(*Transfer)(nil).Measure(func() Way { return way })
}

// Entries may be removed in any order, and the caller may stop early.
func TestLiveOrder(t *testing.T) {
	r := New(Config{})
	var all []*Transfer
	for range 5 * parts {
		all = append(all, r.Begin(Info{Protocol: TFTP}))
	}
	for i, x := range all {
		if i%3 == 0 {
			x.End(End{})
		}
	}
	seen := map[uint64]bool{}
	for s := range r.Live() {
		if seen[s.ID] || (s.ID-1)%3 == 0 {
			t.Errorf("transfer %d is listed twice, or has ended", s.ID)
		}
		seen[s.ID] = true
	}
	if want := len(all) - (len(all)+2)/3; len(seen) != want {
		t.Errorf("%d listed, want %d", len(seen), want)
	}
	n := 0
	for range r.Live() {
		if n++; n == 3 {
			break
		}
	}
	if n != 3 {
		t.Errorf("continued to %d", n)
	}
}

func TestLiveBound(t *testing.T) {
	r := New(Config{})
	var all []*Transfer
	for range MaxLive + 2 {
		all = append(all, r.Begin(Info{Protocol: TFTP}))
	}
	listed := func() (n int) {
		for range r.Live() {
			n++
		}
		return n
	}
	if n := listed(); n != MaxLive {
		t.Errorf("%d listed, want %d", n, MaxLive)
	}
	if got := value(t, r, "haul_transfers_unlisted_total"); got != 2 {
		t.Errorf("%v counted as unlisted, want 2", got)
	}
	const bytes = `haul_bytes_total{direction="read",protocol="tftp"}`
	unlisted := all[len(all)-1]
	unlisted.Add(10)
	unlisted.End(End{Result: Done})
	if got := value(t, r, bytes); got != 10 {
		t.Errorf("%v bytes of an unlisted transfer, want 10", got)
	}
	if n := listed(); n != MaxLive {
		t.Errorf("%d listed after an unlisted one ended, want %d", n, MaxLive)
	}
	all[0].End(End{})
	all[1].End(End{})
	r.Begin(Info{Protocol: TFTP})
	if n := listed(); n != MaxLive-1 {
		t.Errorf("%d listed, want %d", n, MaxLive-1)
	}
	if got := value(t, r, `haul_transfers_live{direction="read",protocol="tftp"}`); got != MaxLive {
		t.Errorf("%v under way, want %d", got, MaxLive)
	}
}

// A transfer that counts by itself is asked whenever it is listed, but not after it has ended.
func TestFollow(t *testing.T) {
	r := New(Config{})
	tr := r.Begin(Info{Protocol: SFTP, Write: true})
	var moved atomic.Int64
	tr.Follow(moved.Load)
	for _, n := range []int64{5, 7, 3} { // the count never decreases
		moved.Store(n)
		want := max(n, 5)
		if n == 3 {
			want = 7
		}
		for s := range r.Live() {
			if s.Bytes != want {
				t.Errorf("%d bytes are reported, want %d", s.Bytes, want)
			}
		}
		wantCounted(t, r, float64(want))
	}
	moved.Store(9)
	tr.End(End{Result: Done})
	moved.Store(20)
	wantCounted(t, r, 9)
	var none *Transfer
	none.Follow(moved.Load)
}

// wantCounted checks haul_bytes_total.
func wantCounted(t *testing.T, r *Registry, want float64) {
	t.Helper()
	families, err := r.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() == "haul_bytes_total" {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	if sum != want {
		t.Errorf("%v bytes are counted, want %v", sum, want)
	}
}

// Config.Ended is called once for each transfer that has ended, with the whole name, and with
// measured values in place of missing ones.
func TestEnded(t *testing.T) {
	var got []Ended
	r := New(Config{Ended: func(e Ended) { got = append(got, e) }})
	long := strings.Repeat("n", 2*maxName)
	broken := errors.New("broken")
	a := r.Begin(Info{Protocol: SFTP, Peer: peer, Name: long, User: "alice"})
	a.Add(7)
	a.End(End{Result: Failed, Bytes: 3, File: long, Path: "/srv/n", Err: broken})
	a.End(End{Result: Done})
	b := r.Begin(Info{Protocol: TFTP, Write: true, Name: "b"})
	b.End(End{Result: Done, Bytes: 9, Duration: time.Minute, Stored: "b-1"})
	if len(got) != 2 {
		t.Fatalf("%d ends are reported, want 2", len(got))
	}
	if e := got[0]; e.ID != 1 || e.File != long || len(e.Name) > maxName || e.User != "alice" || e.Peer != peer ||
		e.Bytes != 7 || e.Duration <= 0 || e.Path != "/srv/n" || e.Err != broken || e.Result != Failed {
		t.Errorf("the first is %+v", e)
	}
	if e := got[1]; e.File != "b" || !e.Write || e.Bytes != 9 || e.Duration != time.Minute || e.Stored != "b-1" {
		t.Errorf("the second is %+v", e)
	}
}
