package tftp

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/sim"
	"github.com/haul-project/haul/store"
)

// The log says what a slow transfer waited for, and nothing of a fast one.
func TestSlow(t *testing.T) {
	slowly := func(op string) func(sim.Call) error {
		return func(c sim.Call) error {
			if c.Op == op {
				time.Sleep(300 * time.Millisecond)
			}
			return nil
		}
	}
	tests := []struct {
		name  string
		write bool
		world func(*world)
		want  string
	}{
		{"fast read", false, nil, ""},
		{"fast write", true, nil, ""},
		{"slow reads", false, func(w *world) { w.disk.NoTry, w.disk.Before = true, slowly(sim.Read) }, "disk"},
		{"slow writes", true, func(w *world) { w.disk.Before = slowly(sim.Write) }, "disk"},
		{"slow commit", true, func(w *world) {
			w.disk.Before = func(c sim.Call) error {
				if c.Op == sim.Commit {
					time.Sleep(5 * time.Second)
				}
				return nil
			}
		}, "disk"},
		{"lossy read", false, func(w *world) { w.net.Default = sim.Link{Latency: time.Millisecond, Loss: 0.2} }, "loss"},
		{"far away", false, func(w *world) { w.net.Default = sim.Link{Latency: 200 * time.Millisecond} }, "peer"},
		{"far away write", true, func(w *world) { w.net.Default = sim.Link{Latency: 200 * time.Millisecond} }, "peer"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *Server) {
				if test.world != nil {
					test.world(w)
				}
			}, func(w *world) {
				const size = 400_000
				b := w.put("image", size)
				c := w.client()
				c.Window = 1
				var err error
				if test.write {
					_, err = c.Put(context.Background(), target("new"), bytes.NewReader(b), size)
				} else {
					_, err = c.Get(context.Background(), target("image"), into(store.Mem(0), "image"))
				}
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				line := w.log.lines[0]
				if line["slow"] != test.want || (test.want != "") != (line["disk"] != "") {
					t.Errorf("slow is %q, want %q, in %v", line["slow"], test.want, line)
				}
			})
		})
	}
}

// A hook's panic has a line in the log, with the place.
func TestHookPanicIsLogged(t *testing.T) {
	var out bytes.Buffer
	inWorld(t, func(_ *world, s *Server) {
		s.Log = textLog(&out)
		s.Ended = func(*Transfer) { panic("of the program") }
	}, func(w *world) {
		_, _ = w.client().Get(context.Background(), target("missing"), nil)
	})
	if s := out.String(); !strings.Contains(s, "a hook panics") || !strings.Contains(s, "slow_test.go") {
		t.Errorf("logged %s", s)
	}
}
