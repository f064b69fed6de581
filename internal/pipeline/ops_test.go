package pipeline

import (
	"container/heap"
	"testing"
	"time"
)

// opsWorld simulates a server that answers small requests after a round trip, one after the other,
// as fast as it can.
func opsWorld(t *testing.T, l OpsLimits, rtt, service time.Duration, requests int) (took time.Duration, peak int) {
	t.Helper()
	o := NewOps(l)
	base := time.Unix(1_000_000, 0)
	now, served := base, base
	var evs eventHeap
	sent, answered := 0, 0
	for answered < requests {
		for sent < requests {
			id, ok := o.Next(now)
			if !ok {
				break
			}
			sent++
			served = later(served, now.Add(rtt/2)).Add(service)
			heap.Push(&evs, event{at: served.Add(rtt / 2), seq: sent, run: func() {
				if !o.Reply(now, id) || o.Reply(now, id) || o.Lost(id) {
					t.Fatal("not answered exactly once")
				}
			}})
			peak = max(peak, o.Outstanding())
		}
		if sent-answered != o.Outstanding() || o.Outstanding() < min(o.Window(), requests-answered) && sent < requests {
			t.Fatalf("%d outstanding, %d sent, %d answered, window %d", o.Outstanding(), sent, answered, o.Window())
		}
		e := heap.Pop(&evs).(event)
		now = e.at
		e.run()
		answered++
	}
	return now.Sub(base), peak
}

// Enough requests without data are outstanding to keep the server busy. 10,000 requests with a round
// trip of 20 ms take a second if the server itself needs half a second for them. One by one they would
// take minutes.
func TestOps(t *testing.T) {
	for _, test := range []struct {
		rtt, service time.Duration
		most         time.Duration
		peak         int
	}{
		{20 * time.Millisecond, 50 * time.Microsecond, 700 * time.Millisecond, 1024},
		{0, 50 * time.Microsecond, 510 * time.Millisecond, 16},
		{200 * time.Microsecond, 20 * time.Microsecond, 220 * time.Millisecond, 64},
		{100 * time.Millisecond, 0, 1900 * time.Millisecond, 1024},
	} {
		took, peak := opsWorld(t, OpsLimits{}, test.rtt, test.service, 10_000)
		t.Logf("round trip %v, %v each: %v, %d in flight", test.rtt, test.service, took, peak)
		if took > test.most || peak > test.peak {
			t.Errorf("round trip %v, %v each: %v, want %v; %d in flight, want %d", test.rtt, test.service, took, test.most, peak, test.peak)
		}
	}
	if took, peak := opsWorld(t, OpsLimits{Min: 1, Max: 1}, time.Millisecond, 0, 100); peak != 1 || took != 100*time.Millisecond {
		t.Errorf("lock-step: %v, %d in flight", took, peak)
	}
	if o := NewOps(OpsLimits{Min: 1 << 30, Max: 1 << 30}); o.Window() != MaxOutstanding {
		t.Errorf("window %d", o.Window())
	}
}

func TestOpsLost(t *testing.T) {
	o := NewOps(OpsLimits{Min: 4, Max: 4})
	now := time.Unix(1_000_000, 0)
	var ids []uint32
	for {
		id, ok := o.Next(now)
		if !ok {
			break
		}
		ids = append(ids, id)
	}
	if len(ids) != 4 || o.Outstanding() != 4 {
		t.Fatalf("%d ids, %d outstanding", len(ids), o.Outstanding())
	}
	if !o.Lost(ids[1]) || o.Lost(ids[1]) || o.Reply(now, ids[1]) || o.Outstanding() != 3 {
		t.Errorf("%d outstanding after one is lost", o.Outstanding())
	}
	if id, ok := o.Next(now); !ok || id == ids[1] {
		t.Errorf("id %d, %v in the place of %d", id, ok, ids[1])
	}
	if o.RoundTrip() != 0 {
		t.Errorf("round trip %v, and nothing was answered", o.RoundTrip())
	}
}
