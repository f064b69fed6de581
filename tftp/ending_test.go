package tftp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/sim"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/packetio"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// slowLink makes transfers take long enough to be interrupted: 100 KB take about ten seconds.
var slowLink = sim.Link{Latency: time.Millisecond, Rate: 10_000, Queue: time.Minute}

// If a peer vanishes during a transfer, both ends give up after the time of silence that the
// negotiated timeout allows, and discard the file.
func TestPeerVanishes(t *testing.T) {
	tests := []struct {
		name    string
		timeout time.Duration
		silence time.Duration
	}{
		{"no timeout agreed on", 0, 30 * time.Second},
		{"one minute agreed on", time.Minute, 5 * time.Minute},
	}
	for _, test := range tests {
		for _, write := range []bool{false, true} {
			t.Run(test.name+"/"+map[bool]string{false: "read", true: "write"}[write], func(t *testing.T) {
				inWorld(t, func(w *simWorld, _ *Config) { w.net.Default = slowLink }, func(w *simWorld) {
					want := w.put("image", 100_000)
					here := &sim.Disk{Store: store.Mem(0)}
					c := w.client()
					c.Timeout = test.timeout
					began := time.Now()
					time.AfterFunc(3*time.Second, func() { w.net.Cut(serverIP, clientIP) })
					var err error
					if write {
						_, err = c.Put(context.Background(), target("new"), bytes.NewReader(want), int64(len(want)))
					} else {
						_, err = c.Get(context.Background(), target("image"), tftptest.Into(here, "image"))
					}
					if !errors.Is(err, transfer.ErrSilent) {
						t.Errorf("client: %v, want ErrSilent", err)
					}
					took := time.Since(began) - 3*time.Second
					if took < test.silence || took > 2*test.silence+10*time.Second {
						t.Errorf("client gave up after %v, want %v or a little more", took, test.silence)
					}
					time.Sleep(2*test.silence + 10*time.Second)
					w.wantResults(map[Outcome]int{PeerSilent: 1})
					if n := w.disk.Unclosed() + here.Unclosed(); n != 0 {
						t.Errorf("%d files left open", n)
					}
					if n := w.server.count.Load(); n != 0 {
						t.Errorf("%d sessions left", n)
					}
					tftptest.WantNoFile(t, w.mem, "new")
					tftptest.WantNoFile(t, here, "image")
				})
			})
		}
	}
}

// stopDuring stops the server during one read and one write.
func stopDuring(t *testing.T, grace time.Duration, check func(w *simWorld, get, put error, took time.Duration)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		w.net.Default = slowLink
		w.start(func(w *simWorld, s *Config) { s.Grace = grace })
		want := w.put("image", 100_000)
		here := store.Mem(0)
		var wg sync.WaitGroup
		var get, put error
		c := w.client()
		wg.Go(func() { _, get = c.Get(context.Background(), target("image"), tftptest.Into(here, "image")) })
		wg.Go(func() {
			_, put = c.Put(context.Background(), target("new"), bytes.NewReader(want), int64(len(want)))
		})
		time.Sleep(2 * time.Second)
		began := time.Now()
		w.stop()
		synctest.Wait()

		// No further transfer begins.
		late := w.client()
		_, err := late.Get(context.Background(), target("image"), tftptest.Into(here, "late"))
		if err == nil {
			t.Error("a stopping server took a new transfer")
		}
		if err := <-w.served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		took := time.Since(began)
		wg.Wait()
		c.Wait()
		check(w, get, put, took)
		w.wantClean()
	})
}

func TestStopLetsTransfersFinish(t *testing.T) {
	stopDuring(t, time.Minute, func(w *simWorld, get, put error, took time.Duration) {
		if get != nil || put != nil {
			w.t.Errorf("get: %v, put: %v", get, put)
		}
		if took < 5*time.Second || took > 50*time.Second {
			w.t.Errorf("took %v, the rest of the transfers takes about 20 s", took)
		}
		tftptest.WantFile(w.t, w.mem, "new", tftptest.Content("image", 100_000))
		w.wantResults(map[Outcome]int{Done: 2})
	})
}

func TestGraceEnds(t *testing.T) {
	stopDuring(t, 3*time.Second, func(w *simWorld, get, put error, took time.Duration) {
		for _, err := range []error{get, put} {
			tftptest.WantFault(w.t, err, transfer.NotDefined)
			if err == nil || !strings.Contains(err.Error(), "shutting down") {
				w.t.Errorf("client: %v, want the shutdown as the reason", err)
			}
		}
		if took > 4*time.Second {
			w.t.Errorf("Serve took %v to return", took)
		}
		tftptest.WantNoFile(w.t, w.mem, "new")
		w.wantResults(map[Outcome]int{Failed: 2})
	})
}

// The server stops while files are being opened, written and published.
func TestGraceEndsDuringJobs(t *testing.T) {
	for _, op := range []string{sim.Open, sim.Create, sim.Read, sim.Write, sim.Truncate, sim.Commit} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 4)
				w.disk.NoTry = true
				w.disk.Before = func(c sim.Call) error {
					if c.Op == op {
						time.Sleep(10 * time.Second)
					}
					return nil
				}
				w.start(func(w *simWorld, s *Config) { s.Grace = time.Second })
				b := w.put("image", 50_000)
				here := store.Mem(0)
				c := w.client()
				var wg sync.WaitGroup
				for range 20 {
					wg.Go(func() { _, _ = c.Get(context.Background(), target("image"), tftptest.Into(here, "image")) })
					wg.Go(func() {
						_, _ = c.Put(context.Background(), target("new"), bytes.NewReader(b), int64(len(b)))
					})
				}
				time.Sleep(2 * time.Second)
				w.stop()
				if err := <-w.served; err != nil {
					t.Errorf("Serve: %v", err)
				}
				w.wantClean()
				wg.Wait()
				c.Wait()
			})
		})
	}
}

// A client whose context ends sends the server an ERROR, and keeps no part of the file.
func TestClientCancels(t *testing.T) {
	for _, write := range []bool{false, true} {
		inWorld(t, func(w *simWorld, _ *Config) { w.net.Default = slowLink }, func(w *simWorld) {
			want := w.put("image", 100_000)
			here := &sim.Disk{Store: store.Mem(0)}
			ctx, cancel := context.WithCancelCause(context.Background())
			time.AfterFunc(3*time.Second, func() { cancel(errors.New("enough")) })
			c := w.client()
			var err error
			began := time.Now()
			if write {
				_, err = c.Put(ctx, target("new"), bytes.NewReader(want), int64(len(want)))
			} else {
				_, err = c.Get(ctx, target("image"), tftptest.Into(here, "image"))
			}
			if !errors.Is(err, context.Canceled) || time.Since(began) != 3*time.Second {
				t.Errorf("%v after %v, want it to end at once when cancelled", err, time.Since(began))
			}
			time.Sleep(20 * time.Second) // packets queued before the ERROR take this long
			w.wantResults(map[Outcome]int{EndedByPeer: 1})
			if n := here.Unclosed(); n != 0 {
				t.Errorf("%d files left open", n)
			}
			tftptest.WantNoFile(t, here, "image")
			tftptest.WantNoFile(t, w.mem, "new")
		})
	}
}

// A broken is a socket whose Read fails on demand.
type broken struct {
	packetio.Socket
	mu  sync.Mutex
	err error
}

func (b *broken) fail(err error) {
	b.mu.Lock()
	b.err = err
	b.mu.Unlock()
	b.Wake()
}

func (b *broken) Read(ms []udp.Message, deadline time.Time) (int, error) {
	n, err := b.Socket.Read(ms, deadline)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return 0, b.err
	}
	return n, err
}

// If a socket fails, the server stops. Transfers of other shards finish, and files that workers
// have are closed.
func TestSocketFails(t *testing.T) {
	for which, name := range []string{"requests", "shard"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 5)
				w.disk.Before = func(c sim.Call) error {
					if c.Op == sim.Open || c.Op == sim.Create {
						time.Sleep(5 * time.Second)
					}
					return nil
				}
				var all []*broken
				w.start(func(w *simWorld, s *Config) {
					open := w.hooks.open
					s.Loops = 1
					w.hooks.open = func(ctx context.Context, at netip.AddrPort, c udp.Config) (packetio.Socket, error) {
						conn, err := open(ctx, at, c)
						if err != nil {
							return nil, err
						}
						all = append(all, &broken{Socket: conn})
						return all[len(all)-1], nil
					}
				})
				w.put("image", 1000)
				c := w.client()
				var wg sync.WaitGroup
				for range 3 {
					wg.Go(func() { _, _ = c.Get(context.Background(), target("image"), tftptest.Into(store.Mem(0), "image")) })
					wg.Go(func() { _, _ = c.Put(context.Background(), target("new"), strings.NewReader("new"), 3) })
				}
				time.Sleep(time.Second)
				all[which].fail(io.ErrUnexpectedEOF)
				if err := <-w.served; !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("Serve: %v, want the socket's error", err)
				}
				if n := w.disk.Unclosed(); n != 0 {
					t.Errorf("%d files left open", n)
				}
				if n := w.net.Host(serverIP).Open(); n != 0 {
					t.Errorf("%d sockets left open", n)
				}
				wg.Wait()
				c.Wait()
			})
		})
	}
}

// Listen reports a port that is in use, although a server's own sockets share a port.
func TestPortTaken(t *testing.T) {
	inWorld(t, nil, func(w *simWorld) {
		s := Config{Store: w.mem, Loops: 2}
		if _, err := listen(context.Background(), testHooks{open: w.opener(serverIP), spread: true}, s, net.JoinHostPort(serverIP, "69")); err == nil {
			t.Error("two servers on one port")
		}
		if n := w.net.Host(serverIP).Open(); n != len(w.server.bindings[0].requestSockets)+len(w.server.bindings[0].shards) {
			t.Errorf("%d sockets open after a Listen that failed", n)
		}
	})
}

// Alive reports loops that take no turns, for a watchdog.
func TestAlive(t *testing.T) {
	var release chan struct{}
	var stuck atomic.Bool
	synctest.Test(t, func(t *testing.T) {
		release = make(chan struct{}) // a channel of the synctest bubble
		w := newWorld(t, 1)
		w.start(func(_ *simWorld, s *Config) {
			s.Hooks.Started = func(*Transfer) {
				if stuck.Load() {
					<-release // hooks must not do this
				}
			}
		})
		w.put("image", 100)
		for range 3 {
			if !w.server.Alive() {
				t.Error("not alive, though nothing is wrong")
			}
			time.Sleep(time.Second)
		}
		stuck.Store(true)
		p := w.raw(otherIP)
		defer p.Close()
		p.Send(tftptest.RRQ("image"))
		time.Sleep(time.Second)
		w.server.Alive() // the loop took a turn before it got stuck
		time.Sleep(time.Second)
		if w.server.Alive() {
			t.Error("alive, though a loop hangs")
		}
		close(release)
		p.News()
		p.Send(tftptest.ACK(1))
		time.Sleep(time.Second)
		w.server.Alive()
		time.Sleep(time.Second)
		if !w.server.Alive() {
			t.Error("not alive, though the loop continues")
		}
		w.end()
	})
}
