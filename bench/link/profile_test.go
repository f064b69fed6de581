package link

import (
	"math"
	"strings"
	"testing"
)

// TestBounds compares the profiles with the documents' columns, in MB/s of blocks of 1,432 bytes.
func TestBounds(t *testing.T) {
	tests := []struct {
		profile  string
		window   int
		from, to float64
	}{
		{"lan1g", 1, 10.0, 10.3},
		{"lan1g", 4, 32, 33},
		{"lan1g", 16, 70.5, 72.5},
		{"lan1g", 64, 101.5, 102.5},
		{"lan1g", 128, 109.5, 110.5},
		{"lan100m", 1, 2.43, 2.99},
		{"lan100m", 128, 11.55, 11.7},
		{"vpn", 1, 0.136, 0.142},
		{"vpn", 128, 3.82, 3.88},
	}
	for _, test := range tests {
		p, err := Lookup(test.profile)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Bound(documentBlock, test.window) / 1e6; got < test.from || got > test.to {
			t.Errorf("%s at windowsize %d: %.3f MB/s, not %g to %g", test.profile, test.window, got, test.from, test.to)
		}
	}
}

func TestLookup(t *testing.T) {
	for _, p := range Profiles() {
		if err := p.Check(); err != nil {
			t.Error(err)
		}
		lossy, err := Lookup(p.Name + "+loss")
		if err != nil {
			t.Fatal(err)
		}
		if more := lossy.Ways[B].Loss - p.Ways[B].Loss; math.Abs(more-0.01) > 1e-9 {
			t.Errorf("%s loses %g more, not 0.01", lossy.Name, more)
		}
		if lossy.Cycle(1000) != p.Cycle(1000) {
			t.Errorf("%s is slower than %s", lossy.Name, p.Name)
		}
	}
	if _, err := Lookup("lan2g"); err == nil || !strings.Contains(err.Error(), "rtt100") {
		t.Errorf("an unknown name: %v; want the known ones", err)
	}
}

func TestImpossibleProfiles(t *testing.T) {
	for what, w := range map[string]Way{
		"loss":  {Loss: 1.5},
		"NaN":   {Duplicate: math.NaN()},
		"delay": {Delay: -1},
		"rate":  {Rate: 1},
		"queue": {Queue: arenaSize},
	} {
		if err := (&Profile{Name: what, Ways: [2]Way{{}, w}}).Check(); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}
