package linequeue

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/shares"
)

// writes returns how many of n lines are written.
func writes(b *Budget, now time.Time, n int, cause string, source func(i int) shares.Source) (written int) {
	for i := range n {
		if b.Take(now, cause, source(i), "last") {
			written++
		}
	}
	return written
}

// counted returns a Budget that adds the lines that it leaves out to left.
func counted(left *int64) *Budget {
	b := &Budget{}
	b.Write = func(_ string, n int64, _ string) bool { *left += n; return true }
	return b
}

// A source has one share, and gets it back as time passes. Other sources and other causes have their
// own shares. All lines that are left out are counted.
func TestShares(t *testing.T) {
	for _, test := range []struct {
		what          string
		source, other shares.Source
	}{
		{"addresses", shares.SourceOf("", netip.MustParseAddr("192.0.2.1")), shares.SourceOf("", netip.MustParseAddr("192.0.2.2"))},
		{"users", shares.Source{User: "a"}, shares.Source{User: "b"}},
		{"unknown", shares.Source{}, shares.Source{User: "b"}},
	} {
		source := func(int) shares.Source { return test.source }
		synctest.Test(t, func(t *testing.T) {
			var left int64
			b, now := counted(&left), time.Now()
			if n := writes(b, now, 3*sourceBurst, "cause", source); n != sourceBurst {
				t.Errorf("%s: %d lines, want %d", test.what, n, sourceBurst)
			}
			if n := writes(b, now.Add(5*sourceEvery), 10, "cause", source); n != 5 {
				t.Errorf("%s: %d lines later, want 5", test.what, n)
			}
			if !b.Take(now, "cause", test.other, "last") {
				t.Errorf("%s: another source has no share", test.what)
			}
			if !b.Take(now, "other", test.source, "last") {
				t.Errorf("%s: another cause has no share", test.what)
			}
			if n := writes(b, now.Add(time.Hour), 3*sourceBurst, "cause", source); n != sourceBurst {
				t.Errorf("%s: %d lines after an hour, want %d", test.what, n, sourceBurst)
			}
			if b.Flush(); left != 2*sourceBurst+5+2*sourceBurst {
				t.Errorf("%s: %d lines are counted as left out", test.what, left)
			}
		})
	}
}

// Any number of sources have a bounded number of lines, and a bounded table.
func TestSharesOfAll(t *testing.T) {
	var left int64
	b, now := counted(&left), time.Now()
	peer := func(i int) shares.Source { return shares.Source{User: fmt.Sprint(i)} }
	if n := writes(b, now, 2*totalBurst, "cause", peer); n != totalBurst {
		t.Errorf("%d lines, want %d", n, totalBurst)
	}
	written, most := 0, 0
	const rounds = 1000
	for i := range rounds {
		now = now.Add(10 * totalEvery)
		written += writes(b, now, 20, "cause", func(j int) shares.Source { return peer(1<<20 + 20*i + j) })
		most = max(most, len(b.causes["cause"].sources))
	}
	if written != 10*rounds {
		t.Errorf("%d lines later, want %d", written, 10*rounds)
	}
	if most > maxSources {
		t.Errorf("%d sources are remembered", most)
	}
	if b.Flush(); left != totalBurst+10*rounds {
		t.Errorf("%d lines are counted as left out", left)
	}
}

// If Write has no room for a number, the next call includes it.
func TestWriteAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		room := false
		l := RateLimited{Write: func(cause string, n int64, last string) bool {
			if room {
				got = append(got, fmt.Sprint(cause, n, last))
			}
			return room
		}}
		for range 3 {
			l.Count(0, "cause", "peer")
		}
		time.Sleep(rateLimitEvery)
		l.mu.Lock() // which is held while Write runs
		room = true
		l.mu.Unlock()
		time.Sleep(3 * rateLimitEvery)
		l.Count(0, "cause", "peer")
		if l.Flush(); strings.Join(got, ", ") != "cause3peer, cause1peer" {
			t.Errorf("it receives %q", got)
		}
	})
}

// A long text is cut after its beginning, and a short text stays as it is.
func TestShort(t *testing.T) {
	long := strings.Repeat("n", 2*maxError)
	if a, b := ShortName(long), ShortName(long[:maxName]); a != b || len(a) != maxName {
		t.Errorf("names of %d and %d bytes", len(a), len(b))
	}
	if a, b := ShortError(long), ShortError(long[:maxError]); a != b || len(a) != maxError {
		t.Errorf("errors of %d and %d bytes", len(a), len(b))
	}
}
