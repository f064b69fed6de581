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
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
)

// Firmware repeats its requests within milliseconds. Only one transfer answers.
func TestRepeatedRequest(t *testing.T) {
	inWorld(t, nil, func(w *simWorld) {
		b := w.put("image", 700)
		p := w.raw(otherIP)
		defer p.Close()
		for range 3 {
			p.Send(tftptest.RRQ("image"))
		}
		p.Want("answer", tftptest.Data(1, b[:512]))
		p.WantNothing("the repeats within the same moment", 200*time.Millisecond)
		if n := w.disk.Calls(sim.Open); n != 1 {
			t.Errorf("%d files opened for one request and its repeats", n)
		}
		p.Send(tftptest.ACK(1))
		p.Want("second block", tftptest.Data(2, b[512:]))
		p.Send(tftptest.ACK(2))
		w.wantResults(map[Outcome]int{Done: 1})
	})
}

// If a request is repeated, an answer that may be lost is sent again.
func TestRepeatedRequestAnswered(t *testing.T) {
	for _, write := range []bool{false, true} {
		inWorld(t, nil, func(w *simWorld) {
			w.put("image", 700)
			request, answer := tftptest.RRQ("image", "blksize", "600"), tftptest.OACK("blksize", "600")
			if write {
				request = tftptest.WRQ("new", "blksize", "600")
			}
			p := w.raw(otherIP)
			defer p.Close()
			port := p.To
			p.Send(request)
			p.Want("answer", answer)
			time.Sleep(300 * time.Millisecond)
			p.To = port
			p.Send(request)
			p.Want("answer to the repeat", answer)
			if n := w.disk.Calls(sim.Open) + w.disk.Calls(sim.Create); n != 1 {
				t.Errorf("%d files opened", n)
			}
			p.Send(tftptest.ErrorPacket(0, "enough"))
			w.wantResults(map[Outcome]int{map[bool]Outcome{false: Probe, true: EndedByPeer}[write]: 1})
		})
	}
}

// Some clients use one port for all requests. A request from the port of a running transfer starts
// another transfer if it differs from the first request, or arrives late.
func TestNewRequestReplaces(t *testing.T) {
	tests := []struct {
		name          string
		first, second []byte
		wait          time.Duration
		replaces      bool
	}{
		{"the same at once", tftptest.RRQ("image"), tftptest.RRQ("image"), 500 * time.Millisecond, false},
		{"the same after a second", tftptest.RRQ("image"), tftptest.RRQ("image"), 1100 * time.Millisecond, true},
		{"another file", tftptest.RRQ("image"), tftptest.RRQ("other"), 0, true},
		{"other options", tftptest.RRQ("image"), tftptest.RRQ("image", "blksize", "512"), 0, true},
		{"another direction", tftptest.RRQ("image"), tftptest.WRQ("image"), 0, true},
		{"a write after a write", tftptest.WRQ("image"), tftptest.WRQ("other"), 0, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, nil, func(w *simWorld) {
				want := w.put("image", 2000)
				w.put("other", 2000)
				p := w.raw(otherIP)
				defer p.Close()
				port := p.To
				p.Send(test.first)
				if p.Next(time.Second) == nil {
					t.Fatal("no answer")
				}
				if test.first[1] == 1 {
					p.Send(tftptest.ACK(1))
				} else {
					p.Send(tftptest.Data(1, make([]byte, 512)))
				}
				if p.Next(time.Second) == nil {
					t.Fatal("no second answer")
				}
				time.Sleep(test.wait)
				p.To = port
				p.Send(test.second)
				synctest.Wait()
				replaced := 0
				if test.replaces {
					replaced = 1
				}
				if n := w.disk.Calls(sim.Open) + w.disk.Calls(sim.Create); n != 1+replaced {
					t.Errorf("%d files opened, want %d", n, 1+replaced)
				}
				w.wantResults(map[Outcome]int{Replaced: replaced})
				if n := w.server.count.Load(); n != 1 {
					t.Errorf("%d sessions, want 1", n)
				}
				tftptest.WantFile(t, w.mem, "image", want) // a replaced upload leaves nothing behind
			})
		})
	}
}

// While a slow store processes the request, the peer repeats it. The last repeat crosses the
// answer, and must not end the transfer.
func TestRepeatCrossesAnswer(t *testing.T) {
	for _, op := range []string{sim.Open, sim.Create} {
		inWorld(t, func(w *simWorld, _ *Config) {
			w.disk.Before = func(c sim.Call) error {
				if c.Op == op {
					time.Sleep(2500 * time.Millisecond)
				}
				return nil
			}
		}, func(w *simWorld) {
			b := w.put("image", 700)
			p := w.raw(otherIP)
			defer p.Close()
			port := p.To
			request, answer := tftptest.RRQ("image"), tftptest.Data(1, b[:512])
			said, second := tftptest.ACK(1), tftptest.Data(2, b[512:])
			if op == sim.Create {
				request, answer = tftptest.WRQ("new"), tftptest.ACK(0)
				said, second = tftptest.Data(1, b[:512]), tftptest.ACK(1)
			}
			for range 3 {
				p.Send(request)
				time.Sleep(800 * time.Millisecond)
			}
			p.Want("answer", answer)
			p.Send(said)
			p.Want("second answer", second)
			mine := p.To
			p.To = port
			p.Send(request) // a duplicate that was under way for long
			p.To = mine
			p.WantNothing("the repeat", 10*time.Millisecond)
			if op == sim.Create {
				p.Send(tftptest.Data(2, b[512:]))
				p.Want("last ACK", tftptest.ACK(2))
			} else {
				p.Send(tftptest.ACK(2))
			}
			w.wantResults(map[Outcome]int{Done: 1})
			if n := w.disk.Calls(op); n != 1 {
				t.Errorf("%d files opened for one request", n)
			}
		})
	}
}

// A new request arrives while the store is still busy with the first.
func TestReplacedWhileOpening(t *testing.T) {
	for _, op := range []string{sim.Open, sim.Create, sim.Commit} {
		inWorld(t, func(w *simWorld, _ *Config) {
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
			defer p.Close()
			port := p.To
			switch op {
			case sim.Open:
				p.Send(tftptest.RRQ("first"))
			case sim.Create:
				p.Send(tftptest.WRQ("first"))
			case sim.Commit:
				p.Send(tftptest.WRQ("first"))
				p.Want("ACK 0", tftptest.ACK(0))
				p.Send(tftptest.Data(1, b))
			}
			time.Sleep(time.Second)
			p.To = port
			p.Send(tftptest.RRQ("second"))
			p.Want("answer to the second request", tftptest.Data(1, tftptest.Content("second", 100)))
			p.Send(tftptest.ACK(1))
			p.WantNothing("the first request's answer", time.Minute)
			w.wantResults(map[Outcome]int{Replaced: 1, Done: 1})
			if n := w.server.count.Load(); n != 0 {
				t.Errorf("%d sessions left", n)
			}
		})
	}
}

// Packets that belong to no transfer are answered with an ERROR, at a limited rate, but ERRORs are
// never answered. This holds at the port for requests and at the port of transfers.
func TestStrays(t *testing.T) {
	inWorld(t, func(_ *simWorld, s *Config) { s.Loops = 1 }, func(w *simWorld) {
		port := w.server.bindings[0].shards[0].conn.LocalAddr()
		for _, b := range [][]byte{tftptest.ACK(1), tftptest.Data(1, nil), tftptest.RRQ("image"), tftptest.OACK(), {0, 99}} {
			p := w.raw(otherIP)
			p.To = port
			p.Send(b)
			p.WantError(fmt.Sprintf("%q to no transfer", b), transfer.UnknownID)
			p.To = w.server.Addr()
			if b[1] != 1 {
				p.Send(b)
				p.WantError(fmt.Sprintf("%q to the port for requests", b), transfer.IllegalOperation)
			}
			p.Close()
		}
		p := w.raw(otherIP)
		defer p.Close()
		for _, b := range [][]byte{tftptest.ErrorPacket(0, ""), tftptest.ErrorPacket(5, "no"), {0, 5}, {0}, {}} {
			for _, to := range []bool{false, true} {
				p.To = port
				if to {
					p.To = w.server.Addr()
				}
				p.Send(b)
				p.WantNothing(fmt.Sprintf("answer to %q", b), time.Second)
			}
		}
		time.Sleep(2 * time.Second)
		for range 10 * maxErrors {
			p.To = port
			p.Send(tftptest.ACK(9))
		}
		answers := 0
		for p.Next(0) != nil || p.Next(time.Millisecond) != nil {
			answers++
		}
		if answers == 0 || answers > 2*maxErrors {
			t.Errorf("%d answers to %d strays", answers, 10*maxErrors)
		}
	})
}

// If a server answers a duplicated request twice, from two transfers, the client continues with the
// first one.
func TestTwoAnswers(t *testing.T) {
	inWorld(t, func(w *simWorld, s *Config) { w.net.Default = sim.Link{Latency: time.Millisecond} }, func(w *simWorld) {
		here := store.Mem(0)
		var wg sync.WaitGroup
		// The test acts as the server, and answers from two ports.
		port, one, two := w.raw(otherIP), w.raw(otherIP), w.raw(otherIP)
		defer port.Close()
		defer one.Close()
		defer two.Close()
		to := tftpclient.Target{Host: otherIP, Port: port.Conn.LocalAddr().Port(), Name: "image"}
		wg.Go(func() {
			res, err := w.client().Get(context.Background(), to, tftptest.Into(here, "image"))
			if err != nil || res.Peer != one.Conn.LocalAddr() {
				t.Errorf("get: %v from %v", err, res.Peer)
			}
		})
		if b := port.Next(time.Second); transfer.OpcodeOf(b) != transfer.ReadRequest {
			t.Fatalf("request %q", b)
		}
		one.To, two.To = port.To, port.To
		one.Send(tftptest.OACK("blksize", "600"))
		one.Want("ACK 0 to the first", tftptest.ACK(0))
		two.Send(tftptest.OACK("blksize", "700"))
		two.WantError("the second", transfer.UnknownID)
		two.Send(tftptest.Data(1, []byte("not from here")))
		two.WantError("the second again", transfer.UnknownID)
		two.Send(tftptest.ErrorPacket(0, "stop"))
		stranger := w.raw(serverIP)
		defer stranger.Close()
		stranger.To = one.To
		stranger.Send(tftptest.Data(1, []byte("nor from here")))
		stranger.WantError("another host", transfer.UnknownID)
		one.Send(tftptest.Data(1, []byte("the file")))
		one.Want("last ACK", tftptest.ACK(1))
		wg.Wait()
		tftptest.WantFile(t, here, "image", []byte("the file"))
	})
}

// An answer from another host than the one to which the client sent its request counts as a
// stranger's.
func TestAnswerFromElsewhere(t *testing.T) {
	inWorld(t, nil, func(w *simWorld) {
		port, elsewhere := w.raw(otherIP), w.raw("192.0.2.67")
		defer port.Close()
		defer elsewhere.Close()
		var wg sync.WaitGroup
		wg.Go(func() {
			to := tftpclient.Target{Host: otherIP, Port: port.Conn.LocalAddr().Port(), Name: "image"}
			if _, err := w.client().Get(context.Background(), to, tftptest.Into(store.Mem(0), "image")); !errors.Is(err, transfer.ErrSilent) {
				t.Errorf("get: %v, want ErrSilent", err)
			}
		})
		port.Next(time.Second)
		elsewhere.To = port.To
		elsewhere.Send(tftptest.Data(1, []byte("evil")))
		elsewhere.WantError("another host", transfer.UnknownID)
		wg.Wait()
	})
}

// An unreachable stranger does not end a client's transfer.
func TestUnreachableStranger(t *testing.T) {
	inWorld(t, func(w *simWorld, _ *Config) { w.net.Default = sim.Link{Latency: 20 * time.Millisecond} }, func(w *simWorld) {
		want := w.put("image", 5000)
		w.net.Route(otherIP, clientIP, sim.Link{})
		p := w.raw(otherIP)
		defer p.Close()
		here := store.Mem(0)
		time.AfterFunc(10*time.Millisecond, func() { // before the server's answer
			for port := uint16(firstSimPort); port < firstSimPort+10; port++ {
				p.To = addrPort(clientIP, port)
				p.Send(tftptest.Data(1, nil))
			}
		})
		c := w.client()
		c.open = unreachableFor(c.open, otherIP)
		if _, err := c.Get(context.Background(), target("image"), tftptest.Into(here, "image")); err != nil {
			t.Errorf("get: %v", err)
		}
		tftptest.WantFile(t, here, "image", want)
	})
}

// The client reports whether the port is closed or the host does not answer.
func TestNoServerThere(t *testing.T) {
	inWorld(t, nil, func(w *simWorld) {
		w.net.Host(otherIP)
		c := w.client()
		if _, err := c.Get(context.Background(), tftpclient.Target{Host: otherIP, Name: "a"}, nil); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("closed port: %v", err)
		}
		if _, err := c.Get(context.Background(), tftpclient.Target{Host: "192.0.2.200", Name: "a"}, nil); !errors.Is(err, syscall.ENETUNREACH) {
			t.Errorf("no route: %v", err)
		}
		w.net.Cut(clientIP, otherIP)
		began := time.Now()
		if _, err := c.Get(context.Background(), tftpclient.Target{Host: otherIP, Name: "a"}, nil); !errors.Is(err, transfer.ErrSilent) {
			t.Errorf("silence: %v", err)
		}
		if took := time.Since(began); took < 5*time.Second || took > time.Minute {
			t.Errorf("silence took %v", took)
		}
	})
}

// A full server refuses requests, and continues its transfers.
func TestTooManyTransfers(t *testing.T) {
	inWorld(t, func(w *simWorld, s *Config) {
		s.MaxTransfers = 3
		w.net.Default = sim.Link{Latency: time.Millisecond, Rate: 10_000, Queue: time.Minute}
	}, func(w *simWorld) {
		want := w.put("image", 30_000)
		here := store.Mem(0)
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				if _, err := w.client().Get(context.Background(), target("image"), tftptest.Into(here, fmt.Sprint(i))); err != nil {
					t.Errorf("get: %v", err)
				}
			})
		}
		time.Sleep(time.Second)
		p := w.raw(otherIP)
		defer p.Close()
		p.Send(tftptest.RRQ("image"))
		p.WantError("one too many", transfer.NotDefined)
		p.WantNothing("after that", time.Second)
		wg.Wait()
		for i := range 3 {
			tftptest.WantFile(t, here, fmt.Sprint(i), want)
		}
		time.Sleep(time.Minute) // until the link is free again
		if _, err := w.client().Get(context.Background(), target("image"), tftptest.Into(here, "later")); err != nil {
			t.Errorf("once there is room: %v", err)
		}
	})
}

// Uploads with large windows leave memory for others, and return it as soon as they are
// published.
func TestManyLargeUploads(t *testing.T) {
	inWorld(t, func(w *simWorld, s *Config) {
		s.Loops = 1
		s.Limits.Window = transfer.MaxWindow
		w.net.Default = sim.Link{Latency: time.Millisecond, Rate: 1 << 20, Queue: time.Hour}
	}, func(w *simWorld) {
		b := tftptest.Content("new", 200_000)
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
					tftptest.WantFile(t, w.mem, name, b)
				})
			}
			wg.Wait()
			synctest.Wait()
			wantAllFree(t, w.server, "once all is published")
		}
	})
}

// An upload is ended if there is no memory when its first block arrives.
func TestNoMemoryForUpload(t *testing.T) {
	inWorld(t, func(_ *simWorld, s *Config) { s.Loops = 1 }, func(w *simWorld) {
		if _, err := w.client().Put(context.Background(), target("one"), strings.NewReader("x"), 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		free := &w.server.memory.free
		free.Store(minRing - 1)
		_, err := w.client().Put(context.Background(), target("two"), strings.NewReader("x"), 1)
		tftptest.WantFault(t, err, transfer.NotDefined)
		w.wantResults(map[Outcome]int{Done: 1, Failed: 1})
		free.Store(w.server.memory.limit)
	})
}
