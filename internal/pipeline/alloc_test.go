package pipeline

import (
	"testing"
	"time"
)

// A request allocates nothing, however it ends, once the tables have grown to the number of
// outstanding requests.
func TestAllocatesNothing(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	k := NewLink(Limits{SessionBytes: 1 << 20, MinBytes: 8 << 20})
	p := New(Config{Link: k, Size: 1 << 60, Chunk: 4 << 10, Repeat: true})
	var sent []Request
	fill := func() {
		for session := range 8 {
			for {
				r, ok := p.Next(now, session)
				if !ok {
					break
				}
				sent = append(sent, r)
			}
		}
	}
	// The order of the answers leaves holes everywhere, and one in five answers is short.
	round := func() {
		now = now.Add(time.Millisecond)
		for first := range 7 {
			for i := first; i < len(sent); i += 7 {
				n := sent[i].Len
				if i%5 == 0 {
					n = (n + 1) / 2
				}
				if _, ok := k.Find(sent[i].ID); !ok || !p.Reply(now, sent[i].ID, n) {
					t.Fatalf("%+v is not answered", sent[i])
				}
			}
		}
		sent = sent[:0]
		fill()
		_, _, _ = p.Deadline(), p.Sessions(), k.Window()
	}
	lost := func() {
		k.SessionLost(3)
		fill()
		for i := 0; i < len(sent); {
			if _, ok := k.Find(sent[i].ID); ok {
				i++
			} else {
				sent[i] = sent[len(sent)-1]
				sent = sent[:len(sent)-1]
			}
		}
	}
	fill()
	for range 20 {
		round()
		lost()
	}
	none := func(what string, f func()) {
		t.Helper()
		if n := testing.AllocsPerRun(20, f); n > 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
	none("answers", round)
	none("the loss of a session", lost)

	o := NewOps(OpsLimits{})
	ops := make([]uint32, 0, 1024)
	none("small requests", func() {
		for {
			id, ok := o.Next(now)
			if !ok {
				break
			}
			ops = append(ops, id)
		}
		now = now.Add(time.Millisecond)
		for _, id := range ops {
			o.Reply(now, id)
		}
		ops = ops[:0]
	})
}

// BenchmarkReply measures one request and its answer, in any order, with the largest number of
// outstanding requests.
func BenchmarkReply(b *testing.B) {
	now := time.Unix(1_000_000, 0)
	k := NewLink(Limits{SessionBytes: 1 << 30, MinBytes: MaxOutstanding << 10, MaxBytes: MaxOutstanding << 10})
	p := New(Config{Link: k, Size: 1 << 60, Chunk: 1 << 10})
	var sent [MaxOutstanding]Request
	for i := range sent {
		sent[i], _ = p.Next(now, 0)
	}
	i := 0
	for b.Loop() {
		i = (i + 1237) % len(sent)
		now = now.Add(time.Microsecond)
		if !p.Reply(now, sent[i].ID, sent[i].Len) {
			b.Fatal("no answer")
		}
		var ok bool
		if sent[i], ok = p.Next(now, 0); !ok {
			b.Fatal("no request")
		}
	}
}
