package mux

import (
	"testing"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
)

// A server that accepted the connection quickly counts as far only if all of its answers were late.
// If it answered a single request quickly, it is short of processor time, and a further login would
// take some of that time from the transfer. The server counts as near until the transfer ends.
func TestWorthOfSlowServer(t *testing.T) {
	for _, test := range []struct {
		name  string
		seed  time.Duration // how long it took to connect
		soon  time.Duration // round trip of the first request with data; all others take the time `late`
		late  time.Duration
		conns int
	}{
		{"slow", time.Millisecond, time.Millisecond, 90 * time.Millisecond, 1},
		{"forwarded", time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond, 4},
		{"forwarded far", time.Millisecond, 90 * time.Millisecond, 90 * time.Millisecond, 8},
		{"not known, and longer since", 0, time.Millisecond, 90 * time.Millisecond, 8},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := pool{link: pipeline.NewLink(pipeline.Limits{}), ops: pipeline.NewOps(pipeline.OpsLimits{}), canConnect: true, seed: test.seed, maxConns: 8}
			now := time.Unix(0, 0)
			id, _ := p.ops.Next(now)
			p.ops.Reply(now.Add(test.late), id)
			plan := pipeline.New(pipeline.Config{Link: p.link, Size: 256 << 20, Chunk: 255 << 10})
			trip, conns := test.soon, 0
			for end := now.Add(30 * time.Second); now.Before(end) && plan.Left() >= farBytes; trip = test.late {
				q, ok := plan.Next(now, 0)
				if !ok {
					t.Fatal("nothing to ask")
				}
				now = now.Add(trip)
				plan.Reply(now, q.ID, q.Len)
				n, _ := p.worth(1, plan.Left())
				conns = max(conns, n)
			}
			if conns != test.conns {
				t.Errorf("%d connections, want %d", conns, test.conns)
			}
		})
	}
}
