package tftp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/sim"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/transfer"
)

// Firmware repeats its requests within milliseconds. One transfer answers.
func TestRepeatedRequest(t *testing.T) {
	inWorld(t, nil, func(w *simWorld) {
		b := w.put("image", 700)
		p := w.raw(otherIP)
		defer p.close()
		for range 3 {
			p.send(rrq("image"))
		}
		p.want("answer", data(1, b[:512]))
		p.wantNothing("the repeats within the same moment", 200*time.Millisecond)
		if n := w.disk.Calls(sim.Open); n != 1 {
			t.Errorf("%d files opened for one request and its repeats", n)
		}
		p.send(ack(1))
		p.want("second block", data(2, b[512:]))
		p.send(ack(2))
		w.wantResults(map[Outcome]int{Done: 1})
	})
}

// An answer that may be lost goes out again when the request comes again.
func TestRepeatedRequestAnswered(t *testing.T) {
	for _, write := range []bool{false, true} {
		inWorld(t, nil, func(w *simWorld) {
			w.put("image", 700)
			request, answer := rrq("image", "blksize", "600"), oack("blksize", "600")
			if write {
				request = wrq("new", "blksize", "600")
			}
			p := w.raw(otherIP)
			defer p.close()
			port := p.to
			p.send(request)
			p.want("answer", answer)
			time.Sleep(300 * time.Millisecond)
			p.to = port
			p.send(request)
			p.want("answer to the repeat", answer)
			if n := w.disk.Calls(sim.Open) + w.disk.Calls(sim.Create); n != 1 {
				t.Errorf("%d files opened", n)
			}
			p.send(errorPacket(0, "enough"))
			w.wantResults(map[Outcome]int{map[bool]Outcome{false: Probe, true: EndedByPeer}[write]: 1})
		})
	}
}

// Some clients use one port for everything: a request from a live one begins
// anew, if it is another request or comes late.
func TestNewRequestReplaces(t *testing.T) {
	tests := []struct {
		name          string
		first, second []byte
		wait          time.Duration
		replaces      bool
	}{
		{"the same at once", rrq("image"), rrq("image"), 500 * time.Millisecond, false},
		{"the same after a second", rrq("image"), rrq("image"), 1100 * time.Millisecond, true},
		{"another file", rrq("image"), rrq("other"), 0, true},
		{"other options", rrq("image"), rrq("image", "blksize", "512"), 0, true},
		{"another direction", rrq("image"), wrq("image"), 0, true},
		{"a write after a write", wrq("image"), wrq("other"), 0, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, nil, func(w *simWorld) {
				w.put("image", 2000)
				w.put("other", 2000)
				p := w.raw(otherIP)
				defer p.close()
				port := p.to
				p.send(test.first)
				if p.next(time.Second) == nil {
					t.Fatal("no answer")
				}
				if test.first[1] == 1 {
					p.send(ack(1))
				} else {
					p.send(data(1, make([]byte, 512)))
				}
				if p.next(time.Second) == nil {
					t.Fatal("no second answer")
				}
				time.Sleep(test.wait)
				p.to = port
				p.send(test.second)
				synctest.Wait()
				replaced := 0
				if test.replaces {
					replaced = 1
				}
				if n := w.disk.Calls(sim.Open) + w.disk.Calls(sim.Create); n != 1+replaced {
					t.Errorf("%d files opened, want %d", n, 1+replaced)
				}
				w.wantResults(map[Outcome]int{Replaced: replaced})
				if n := w.listener.count.Load(); n != 1 {
					t.Errorf("%d sessions, want 1", n)
				}
			})
		})
	}
}

// While a slow store has the request, the peer repeats it. The last repeat
// crosses the answer, and must not end what the answer began.
func TestRepeatCrossesAnswer(t *testing.T) {
	for _, op := range []string{sim.Open, sim.Create} {
		inWorld(t, func(w *simWorld, _ *Server) {
			w.disk.Before = func(c sim.Call) error {
				if c.Op == op {
					time.Sleep(2500 * time.Millisecond)
				}
				return nil
			}
		}, func(w *simWorld) {
			b := w.put("image", 700)
			p := w.raw(otherIP)
			defer p.close()
			port := p.to
			request, answer := rrq("image"), data(1, b[:512])
			said, second := ack(1), data(2, b[512:])
			if op == sim.Create {
				request, answer = wrq("new"), ack(0)
				said, second = data(1, b[:512]), ack(1)
			}
			for range 3 {
				p.send(request)
				time.Sleep(800 * time.Millisecond)
			}
			p.want("answer", answer)
			p.send(said)
			p.want("second answer", second)
			mine := p.to
			p.to = port
			p.send(request) // it has been on its way for long
			p.to = mine
			p.wantNothing("the repeat", 10*time.Millisecond)
			if op == sim.Create {
				p.send(data(2, b[512:]))
				p.want("last ACK", ack(2))
			} else {
				p.send(ack(2))
			}
			w.wantResults(map[Outcome]int{Done: 1})
			if n := w.disk.Calls(op); n != 1 {
				t.Errorf("%d files opened for one request", n)
			}
		})
	}
}

// A new request comes while the store is busy with the first.
func TestReplacedWhileOpening(t *testing.T) {
	for _, op := range []string{sim.Open, sim.Create, sim.Commit} {
		inWorld(t, func(w *simWorld, _ *Server) {
			w.disk.Before = func(c sim.Call) error {
				if c.Op == op && c.Name == "first" {
					time.Sleep(5 * time.Second)
				}
				return nil
			}
		}, func(w *simWorld) {
			b := w.put("first", 100)
			w.put("second", 100)
			p := w.raw(otherIP)
			defer p.close()
			port := p.to
			switch op {
			case sim.Open:
				p.send(rrq("first"))
			case sim.Create:
				p.send(wrq("first"))
			case sim.Commit:
				p.send(wrq("first"))
				p.want("ACK 0", ack(0))
				p.send(data(1, b))
			}
			time.Sleep(time.Second)
			p.to = port
			p.send(rrq("second"))
			p.want("answer to the second request", data(1, content("second", 100)))
			p.send(ack(1))
			p.wantNothing("the first request's answer", time.Minute)
			w.wantResults(map[Outcome]int{Replaced: 1, Done: 1})
			if n := w.listener.count.Load(); n != 0 {
				t.Errorf("%d sessions left", n)
			}
		})
	}
}

// Packets that belong to no transfer are answered by an ERROR, not too often,
// and errors never: neither at the port for requests nor at that of transfers.
func TestStrays(t *testing.T) {
	inWorld(t, func(_ *simWorld, s *Server) { s.Loops = 1 }, func(w *simWorld) {
		port := w.listener.bindings[0].shards[0].conn.LocalAddr()
		for _, b := range [][]byte{ack(1), data(1, nil), rrq("image"), oack(), {0, 99}} {
			p := w.raw(otherIP)
			p.to = port
			p.send(b)
			p.wantError(fmt.Sprintf("%q to no transfer", b), transfer.UnknownID)
			p.to = w.listener.Addr()
			if b[1] != 1 {
				p.send(b)
				p.wantError(fmt.Sprintf("%q to the port for requests", b), transfer.IllegalOperation)
			}
			p.close()
		}
		p := w.raw(otherIP)
		defer p.close()
		for _, b := range [][]byte{errorPacket(0, ""), errorPacket(5, "no"), {0, 5}, {0}, {}} {
			for _, to := range []bool{false, true} {
				p.to = port
				if to {
					p.to = w.listener.Addr()
				}
				p.send(b)
				p.wantNothing(fmt.Sprintf("answer to %q", b), time.Second)
			}
		}
		time.Sleep(2 * time.Second)
		for range 10 * maxErrors {
			p.to = port
			p.send(ack(9))
		}
		answers := 0
		for p.next(0) != nil || p.next(time.Millisecond) != nil {
			answers++
		}
		if answers == 0 || answers > 2*maxErrors {
			t.Errorf("%d answers to %d strays", answers, 10*maxErrors)
		}
	})
}

// Strangers that send to a live transfer get ERROR 5, and it continues.
func TestStrangersDisturbNoTransfer(t *testing.T) {
	inWorld(t, func(w *simWorld, s *Server) { w.net.Default = slowLink }, func(w *simWorld) {
		want := w.put("image", 50_000)
		here := store.Mem(0)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := w.client().Get(context.Background(), target("image"), into(here, "image")); err != nil {
				t.Errorf("get: %v", err)
			}
		})
		time.Sleep(time.Second)
		// The server's transfer port, and the client's.
		for _, to := range []string{serverIP, clientIP} {
			for port := uint16(firstSimPort); port < firstSimPort+10; port++ {
				p := w.raw(otherIP)
				for _, b := range [][]byte{ack(3), data(3, []byte("evil")), errorPacket(0, "stop"), {0, 1}, {}} {
					p.to = addrPort(to, port)
					p.send(b)
				}
				p.close()
			}
		}
		wg.Wait()
		wantFile(t, here, "image", want)
	})
}

// The network repeats a client's request from a different place: the server
// answers twice, from two transfers. The client stays with the first.
func TestTwoAnswers(t *testing.T) {
	inWorld(t, func(w *simWorld, s *Server) { w.net.Default = sim.Link{Latency: time.Millisecond} }, func(w *simWorld) {
		here := store.Mem(0)
		var wg sync.WaitGroup
		// A server by hand: it answers from two ports.
		port, one, two := w.raw(otherIP), w.raw(otherIP), w.raw(otherIP)
		defer port.close()
		defer one.close()
		defer two.close()
		to := Target{Host: otherIP, Port: port.conn.LocalAddr().Port(), Name: "image"}
		wg.Go(func() {
			res, err := w.client().Get(context.Background(), to, into(here, "image"))
			if err != nil || res.Peer != one.conn.LocalAddr() {
				t.Errorf("get: %v from %v", err, res.Peer)
			}
		})
		if b := port.next(time.Second); transfer.OpcodeOf(b) != transfer.ReadRequest {
			t.Fatalf("request %q", b)
		}
		one.to, two.to = port.to, port.to
		one.send(oack("blksize", "600"))
		one.want("ACK 0 to the first", ack(0))
		two.send(oack("blksize", "700"))
		two.wantError("the second", transfer.UnknownID)
		two.send(data(1, []byte("not from here")))
		two.wantError("the second again", transfer.UnknownID)
		two.send(errorPacket(0, "stop"))
		stranger := w.raw(serverIP)
		defer stranger.close()
		stranger.to = one.to
		stranger.send(data(1, []byte("nor from here")))
		stranger.wantError("another host", transfer.UnknownID)
		one.send(data(1, []byte("the file")))
		one.want("last ACK", ack(1))
		wg.Wait()
		wantFile(t, here, "image", []byte("the file"))
	})
}

// A client asks a host that answers from another one: that is a stranger.
func TestAnswerFromElsewhere(t *testing.T) {
	inWorld(t, nil, func(w *simWorld) {
		port, elsewhere := w.raw(otherIP), w.raw("192.0.2.67")
		defer port.close()
		defer elsewhere.close()
		var wg sync.WaitGroup
		wg.Go(func() {
			to := Target{Host: otherIP, Port: port.conn.LocalAddr().Port(), Name: "image"}
			if _, err := w.client().Get(context.Background(), to, into(store.Mem(0), "image")); !errors.Is(err, transfer.ErrSilent) {
				t.Errorf("get: %v, want ErrSilent", err)
			}
		})
		port.next(time.Second)
		elsewhere.to = port.to
		elsewhere.send(data(1, []byte("evil")))
		elsewhere.wantError("another host", transfer.UnknownID)
		wg.Wait()
	})
}

// A stranger whom no answer can reach does not end a client's transfer.
func TestUnreachableStranger(t *testing.T) {
	inWorld(t, func(w *simWorld, _ *Server) { w.net.Default = sim.Link{Latency: 20 * time.Millisecond} }, func(w *simWorld) {
		want := w.put("image", 5000)
		w.net.Route(otherIP, clientIP, sim.Link{})
		p := w.raw(otherIP)
		defer p.close()
		here := store.Mem(0)
		time.AfterFunc(10*time.Millisecond, func() { // before the server's answer
			for port := uint16(firstSimPort); port < firstSimPort+10; port++ {
				p.to = addrPort(clientIP, port)
				p.send(data(1, nil))
			}
		})
		c := w.client()
		c.open = unreachableFor(c.open, otherIP)
		if _, err := c.Get(context.Background(), target("image"), into(here, "image")); err != nil {
			t.Errorf("get: %v", err)
		}
		wantFile(t, here, "image", want)
	})
}

// The port is closed, or the host does not answer: the client says which.
func TestNoServerThere(t *testing.T) {
	inWorld(t, nil, func(w *simWorld) {
		w.net.Host(otherIP)
		c := w.client()
		if _, err := c.Get(context.Background(), Target{Host: otherIP, Name: "a"}, nil); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("closed port: %v", err)
		}
		if _, err := c.Get(context.Background(), Target{Host: "192.0.2.200", Name: "a"}, nil); !errors.Is(err, syscall.ENETUNREACH) {
			t.Errorf("no route: %v", err)
		}
		w.net.Cut(clientIP, otherIP)
		began := time.Now()
		if _, err := c.Get(context.Background(), Target{Host: otherIP, Name: "a"}, nil); !errors.Is(err, transfer.ErrSilent) {
			t.Errorf("silence: %v", err)
		}
		if took := time.Since(began); took < 5*time.Second || took > time.Minute {
			t.Errorf("silence took %v", took)
		}
	})
}

// A full server says so, and continues the transfers it has.
func TestTooManyTransfers(t *testing.T) {
	inWorld(t, func(w *simWorld, s *Server) {
		s.MaxTransfers = 3
		w.net.Default = sim.Link{Latency: time.Millisecond, Rate: 10_000, Queue: time.Minute}
	}, func(w *simWorld) {
		want := w.put("image", 30_000)
		here := store.Mem(0)
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				if _, err := w.client().Get(context.Background(), target("image"), into(here, fmt.Sprint(i))); err != nil {
					t.Errorf("get: %v", err)
				}
			})
		}
		time.Sleep(time.Second)
		p := w.raw(otherIP)
		defer p.close()
		p.send(rrq("image"))
		p.wantError("one too many", transfer.NotDefined)
		p.wantNothing("after that", time.Second)
		wg.Wait()
		for i := range 3 {
			wantFile(t, here, fmt.Sprint(i), want)
		}
		time.Sleep(time.Minute) // until the link is free again
		if _, err := w.client().Get(context.Background(), target("image"), into(here, "later")); err != nil {
			t.Errorf("once there is room: %v", err)
		}
	})
}

// Uploads in large windows leave memory for others, and give it back as soon
// as they are published.
func TestManyLargeUploads(t *testing.T) {
	inWorld(t, func(w *simWorld, s *Server) {
		s.Loops = 1
		s.Limits.Window = transfer.MaxWindow
		w.net.Default = sim.Link{Latency: time.Millisecond, Rate: 1 << 20, Queue: time.Hour}
	}, func(w *simWorld) {
		b := content("new", 200_000)
		for round := range 2 {
			var wg sync.WaitGroup
			for i := range 40 {
				wg.Go(func() {
					c := w.client()
					c.BlockSize, c.Window = 8192, 1024
					name := fmt.Sprint(round, i)
					_, err := c.Put(context.Background(), target(name), bytes.NewReader(b), int64(len(b)))
					if err != nil {
						t.Errorf("put %s: %v", name, err)
					}
					wantFile(t, w.mem, name, b)
				})
			}
			wg.Wait()
			synctest.Wait()
			if sh := w.listener.bindings[0].shards[0]; sh.memory.left != sh.memory.limit {
				t.Errorf("%d of %d bytes given back once all is published", sh.memory.left, sh.memory.limit)
			}
		}
	})
}

// An upload that finds no memory when its first block comes is ended.
func TestNoMemoryForUpload(t *testing.T) {
	inWorld(t, func(_ *simWorld, s *Server) { s.Loops = 1 }, func(w *simWorld) {
		if _, err := w.client().Put(context.Background(), target("one"), strings.NewReader("x"), 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		sh := w.listener.bindings[0].shards[0]
		sh.memory.left = minRing - 1
		_, err := w.client().Put(context.Background(), target("two"), strings.NewReader("x"), 1)
		wantFault(t, err, transfer.NotDefined)
		w.wantResults(map[Outcome]int{Done: 1, Failed: 1})
		sh.memory.left = sh.memory.limit
	})
}
