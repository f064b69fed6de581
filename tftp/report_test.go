package tftp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/linequeue"
	"github.com/haul-project/haul/internal/sim"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/packetio"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// A transfer's log line names the peer and the file, and says how the file was moved and with what
// result.
func TestLog(t *testing.T) {
	inWorld(t, func(w *simWorld, _ *Config) { w.net.Default = sim.Link{Latency: 5 * time.Millisecond} }, func(w *simWorld) {
		b := w.put("image", 10_000)
		c := w.client()
		c.Timeout, c.Rollover = 2*time.Second, transfer.RolloverOne
		if _, err := c.Get(context.Background(), target("image"), tftptest.Into(store.Mem(0), "image")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Put(context.Background(), target("new"), bytes.NewReader(b), 10_000); err != nil {
			t.Fatal(err)
		}
		_, _ = c.Get(context.Background(), target("missing"), nil)
		_, _ = c.Get(context.Background(), target("../x"), nil)
		w.disk.Before = func(sim.Call) error { return fs.ErrNotExist }
		_, _ = c.Put(context.Background(), target("a/b/c"), bytes.NewReader(b), 10_000)
		synctest.Wait()
		want := []map[string]string{
			{"level": "INFO", "result": "done", "direction": "read", "file": "image", "bytes": "10000", "resends": "0", "rtt": "10ms",
				"options": "octet blksize=1024 windowsize=8 tsize=10000 timeout=2 rollover=1"},
			{"level": "INFO", "result": "done", "direction": "write", "file": "new", "bytes": "10000", "resends": "0"},
			{"level": "INFO", "result": "refused", "direction": "read", "file": "missing", "bytes": "0", "options": "octet"},
			{"level": "WARN", "result": "refused", "direction": "read", "file": "../x"},
			{"level": "WARN", "result": "refused", "direction": "write", "file": "a/b/c"},
		}
		if len(w.log.lines) != len(want) {
			t.Fatalf("logged %v", w.log.lines)
		}
		for i, line := range w.log.lines {
			for key, value := range want[i] {
				if line[key] != value {
					t.Errorf("line %d: %s is %q, want %q", i, key, line[key], value)
				}
			}
			if !strings.HasPrefix(line["peer"], clientIP+":") {
				t.Errorf("line %d: peer %q", i, line["peer"])
			}
		}
		if w.log.lines[2]["error"] == "" || w.log.lines[0]["rate"] == "0 MB/s" {
			t.Errorf("logged %v", w.log.lines)
		}
	})
}

// A read that ends at the rollover of block numbers gets a hint.
func TestStopsAtRollover(t *testing.T) {
	gone := transfer.ErrSilent
	for _, test := range []struct {
		tr   Transfer
		want bool
	}{
		{Transfer{Err: gone, Bytes: 65535 * 512}, true},
		{Transfer{Err: gone, Bytes: 65534 * 512}, true},
		{Transfer{Err: gone, Bytes: 65533 * 512}, false},
		{Transfer{Err: gone, Bytes: 65537 * 512}, false},
		{Transfer{Err: gone, Bytes: 65535 * 8, Agreed: transfer.Options{BlockSize: 8}}, true},
		{Transfer{Err: gone, Bytes: 65535 * 1468, Agreed: transfer.Options{BlockSize: 1468}}, true},
		{Transfer{Err: gone, Bytes: 65535 * 512, Agreed: transfer.Options{BlockSize: 1468}}, false},
		{Transfer{Bytes: 65535 * 512}, false},
		{Transfer{Err: gone, Bytes: 65535 * 512, Request: Request{Request: transfer.Request{Write: true}}}, false},
	} {
		if got := test.tr.stopsAtRollover(); got != test.want {
			t.Errorf("%+v: %v", test.tr, got)
		}
	}
}

// A client reports its progress at intervals and at the end.
func TestProgress(t *testing.T) {
	inWorld(t, func(w *simWorld, _ *Config) { w.net.Default = slowLink }, func(w *simWorld) {
		b := w.put("image", 20_000)
		for _, write := range []bool{false, true} {
			var seen []int64
			c := w.client()
			c.Progress = func(n, size int64) {
				if size != 20_000 || len(seen) > 0 && n < seen[len(seen)-1] {
					t.Errorf("progress of %d of %d after %v", n, size, seen)
				}
				seen = append(seen, n)
			}
			var err error
			if write {
				_, err = c.Put(context.Background(), target("new"), bytes.NewReader(b), 20_000)
			} else {
				_, err = c.Get(context.Background(), target("image"), tftptest.Into(store.Mem(0), "image"))
			}
			if err != nil || len(seen) < 3 || seen[len(seen)-1] != 20_000 {
				t.Errorf("%v, progress %v", err, seen)
			}
			time.Sleep(time.Minute)
		}
	})
}

// A server that cannot open all its sockets closes the sockets that it has opened.
func TestListenFails(t *testing.T) {
	for k := range 8 {
		n := sim.New(1)
		s := Config{Store: store.Mem(0), Loops: 3}
		opened := 0
		open := func(ctx context.Context, addr netip.AddrPort, c udp.Config) (packetio.Socket, error) {
			if opened == k {
				return nil, syscall.EMFILE
			}
			opened++
			return n.Host(serverIP).Listen(ctx, addr, c)
		}
		l, err := listen(t.Context(), testHooks{open: open, spread: true}, s, serverIP+":69")
		if err == nil {
			l.Close()
		} else if !errors.Is(err, syscall.EMFILE) {
			t.Error(err)
		}
		if k < 4 && err == nil || n.Host(serverIP).Open() != 0 {
			t.Errorf("socket %d fails: %v, %d left open", k, err, n.Host(serverIP).Open())
		}
	}
}

// ListenAndServe does the same as Listen and Serve.
func TestListenAndServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := sim.New(1)
		s := Config{Store: store.Mem(0), Loops: 1}
		open := func(ctx context.Context, addr netip.AddrPort, c udp.Config) (packetio.Socket, error) {
			return n.Host(serverIP).Listen(ctx, addr, c)
		}
		ctx, cancel := context.WithTimeout(packetio.WithOpener(t.Context(), open), time.Hour)
		defer cancel()
		if err := s.ListenAndServe(ctx, serverIP+":69"); err != nil || ctx.Err() == nil {
			t.Errorf("ended: %v", err)
		}
		if err := s.ListenAndServe(t.Context(), "nonsense"); err == nil {
			t.Error("listens on nonsense")
		}
	})
}

// A stuckLog is a log without a reader.
type stuckLog struct{ release chan struct{} }

func (l stuckLog) Enabled(context.Context, slog.Level) bool { return true }

func (l stuckLog) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l stuckLog) WithGroup(string) slog.Handler { return l }

func (l stuckLog) Handle(context.Context, slog.Record) error {
	<-l.release
	return nil
}

// A log without a reader blocks neither transfers nor the server's end.
func TestStuckLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := newWorld(t, 1)
		w.start(func(_ *simWorld, s *Config) { s.Log = slog.New(stuckLog{release}) })
		want := w.put("image", 100)
		for range linequeue.Max + 100 {
			p := w.raw(otherIP)
			p.Ask(tftptest.RRQ("image"))
			p.Read(want, 512, 1)
			p.Close()
		}
		here := store.Mem(0)
		if _, err := w.client().Get(context.Background(), target("image"), tftptest.Into(here, "image")); err != nil {
			t.Fatal(err)
		}
		tftptest.WantFile(t, here, "image", want)
		if n := w.server.lines.Lost(); n == 0 {
			t.Error("no line was counted as lost")
		}
		w.end()
		close(release)
	})
}

// The log says for what a slow transfer has waited, and gives no such reason for a fast one.
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
		world func(*simWorld)
		want  string
	}{
		{"fast read", false, nil, ""},
		{"fast write", true, nil, ""},
		{"slow reads", false, func(w *simWorld) { w.disk.NoTry, w.disk.Before = true, slowly(sim.Read) }, "disk"},
		{"slow writes", true, func(w *simWorld) { w.disk.Before = slowly(sim.Write) }, "disk"},
		{"slow commit", true, func(w *simWorld) {
			w.disk.Before = func(c sim.Call) error {
				if c.Op == sim.Commit {
					time.Sleep(5 * time.Second)
				}
				return nil
			}
		}, "disk"},
		{"lossy read", false, func(w *simWorld) { w.net.Default = sim.Link{Latency: time.Millisecond, Loss: 0.2} }, "loss"},
		{"far away", false, func(w *simWorld) { w.net.Default = sim.Link{Latency: 200 * time.Millisecond} }, "peer"},
		{"far away write", true, func(w *simWorld) { w.net.Default = sim.Link{Latency: 200 * time.Millisecond} }, "peer"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(w *simWorld, _ *Config) {
				if test.world != nil {
					test.world(w)
				}
			}, func(w *simWorld) {
				const size = 400_000
				b := w.put("image", size)
				c := w.client()
				c.Window = 1
				var err error
				if test.write {
					_, err = c.Put(context.Background(), target("new"), bytes.NewReader(b), size)
				} else {
					_, err = c.Get(context.Background(), target("image"), tftptest.Into(store.Mem(0), "image"))
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

// A panic in a hook is logged, with its location.
func TestHookPanicIsLogged(t *testing.T) {
	var out bytes.Buffer
	inWorld(t, func(_ *simWorld, s *Config) {
		s.Log = textLog(&out)
		s.Hooks.Ended = func(*Transfer) { panic("of the program") }
	}, func(w *simWorld) {
		_, _ = w.client().Get(context.Background(), target("missing"), nil)
	})
	if s := out.String(); !strings.Contains(s, "a hook panics") || !strings.Contains(s, "report_test.go") {
		t.Errorf("logged %s", s)
	}
}

// However many requests for missing files a client sends, the log has a bounded number of short
// lines about them, and says how many it has left out. All lines about transfers remain.
func TestLogFlood(t *testing.T) {
	const flood, reads = 500, 150
	var out bytes.Buffer
	inWorld(t, func(_ *simWorld, s *Config) { s.Log = textLog(&out) }, func(w *simWorld) {
		want := w.put("image", 100)
		missing := strings.Repeat("\x01", 1500)
		for i := range flood {
			p := w.raw(otherIP)
			p.Send(tftptest.RRQ(missing))
			p.Next(time.Second) // an ERROR, as long as the address may have one
			p.Close()
			if i < reads {
				p := w.raw(otherIP)
				p.Ask(tftptest.RRQ("image"))
				p.Read(want, 512, 1)
				p.Close()
			}
		}
		p := w.raw(clientIP)
		p.Send(tftptest.RRQ("another"))
		p.WantError("another source", transfer.FileNotFound)
		p.Close()
	})
	lines, done, left := 0, 0, 0
	for line := range strings.Lines(out.String()) {
		switch {
		case strings.Contains(line, `msg="tftp: lines left out"`):
			var n int
			_, after, _ := strings.Cut(line, " lines=")
			if _, err := fmt.Sscan(after, &n); err != nil {
				t.Error(err)
			}
			left += n
		case strings.Contains(line, "result=done"):
			done++
		case strings.Contains(line, "result=refused") && !strings.Contains(line, "file=another"):
			if lines++; len(line) > 4<<10 {
				t.Fatalf("a line has %d bytes", len(line))
			}
		}
	}
	if lines == 0 || left == 0 || lines+left != flood || done != reads || !strings.Contains(out.String(), "file=another") {
		t.Errorf("%d lines about missing files, %d left out, %d about transfers", lines, left, done)
	}
}

// The counts of a transfer show whether the peer has sent an ACK or DATA after its request: a
// request may be forged.
func TestHeard(t *testing.T) {
	ack := tftptest.ACK
	for _, single := range []bool{false, true} {
		for _, test := range []struct {
			what    string
			request []byte
			then    []byte // what the peer sends when it has an answer
			outcome Outcome
			heard   int64
		}{
			{"a read", tftptest.RRQ("image"), nil, PeerSilent, 0},
			{"a read with options", tftptest.RRQ("image", "tsize", "0"), nil, PeerSilent, 0},
			{"a write", tftptest.WRQ("new"), nil, PeerSilent, 0},
			{"a request behind a request", tftptest.RRQ("image"), tftptest.RRQ("other"), Replaced, 0},
			{"an ERROR", tftptest.RRQ("image"), tftptest.ErrorPacket(3, "full"), EndedByPeer, 1},
			{"an ACK", tftptest.RRQ("image"), ack(1), PeerSilent, 1},
			{"an ACK of the OACK", tftptest.RRQ("image", "tsize", "0"), ack(0), PeerSilent, 1},
			{"DATA", tftptest.WRQ("new"), tftptest.Data(1, make([]byte, 512)), PeerSilent, 1},
		} {
			var ended []*Transfer
			inWorld(t, func(_ *simWorld, s *Config) {
				s.SinglePort = single
				s.Hooks.Ended = func(e *Transfer) { ended = append(ended, e) }
			}, func(w *simWorld) {
				w.put("image", 5000)
				w.put("other", 5000)
				p := w.raw(otherIP)
				defer p.Close()
				p.Ask(test.request)
				p.News()
				switch {
				case test.outcome == Replaced:
					p.Ask(test.then)
				case test.then != nil:
					p.Send(test.then)
				}
				time.Sleep(10 * time.Minute)
			})
			if len(ended) == 0 || ended[0].Outcome != test.outcome || ended[0].Received-ended[0].Strays != test.heard {
				t.Errorf("%s, single port %v: %+v", test.what, single, ended)
			}
		}
	}
}
