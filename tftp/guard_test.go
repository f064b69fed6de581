package tftp

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/sim"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
)

func prefixes(networks ...string) (p []netip.Prefix) {
	for _, n := range networks {
		p = append(p, netip.MustParsePrefix(n))
	}
	return p
}

func TestAllowAndDeny(t *testing.T) {
	g := guard{allow: prefixes("192.0.2.0/24", "2001:db8::/32"), deny: prefixes("192.0.2.66/32", "2001:db8:bad::/48")}
	for addr, want := range map[string]bool{
		"192.0.2.1":        true,
		"192.0.2.66":       false,
		"198.51.100.1":     false,
		"2001:db8::1":      true,
		"2001:db8:bad::1":  false,
		"2001:db8::1%eth0": true,
		"fe80::1%eth0":     false,
	} {
		if g.allowed(netip.MustParseAddr(addr)) != want {
			t.Errorf("%s is welcome: %v", addr, !want)
		}
	}
	if !(&guard{}).allowed(netip.MustParseAddr("fe80::1%eth0")) {
		t.Error("without rules an address is not welcome")
	}
}

// Each limit has its ERROR, its counter and its line in the log, and does not affect other
// clients.
func TestLimits(t *testing.T) {
	tests := []struct {
		name  string
		limit func(*Config)
		text  string
		code  transfer.ErrorCode
		why   Reason
	}{
		{"per client", func(s *Config) { s.MaxPerClient = 2 }, "too many transfers of this address", transfer.NotDefined, PerClient},
		{"rate", func(s *Config) { s.Rate = 1 }, "too many requests from this address", transfer.NotDefined, Rate},
		{"denied", func(s *Config) { s.Deny = prefixes(otherIP + "/32") }, "access violation", transfer.AccessViolation, Denied},
		{"not allowed", func(s *Config) { s.Allow = prefixes(clientIP + "/32") }, "access violation", transfer.AccessViolation, Denied},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(_ *simWorld, s *Config) { test.limit(s) }, func(w *simWorld) {
				want := w.put("image", 5000)
				var peers []*tftptest.Peer
				refused := 0
				for range 5 {
					p := w.raw(otherIP)
					defer p.Close()
					p.Send(tftptest.RRQ("image"))
					peers = append(peers, p)
					if got := p.News(); transfer.OpcodeOf(got) == transfer.ErrorPacket {
						refused++
						if !bytes.Equal(got, tftptest.ErrorPacket(byte(test.code), test.text)) {
							t.Errorf("refused by %q", got)
						}
					}
				}
				if granted := map[string]int{"per client": 2, "rate": 2}[test.name]; refused != 5-granted {
					t.Errorf("%d of 5 refused", refused)
				}
				here := store.Mem(0)
				if _, err := w.client().Get(context.Background(), target("image"), tftptest.Into(here, "image")); err != nil {
					t.Errorf("another client: %v", err)
				}
				tftptest.WantFile(t, here, "image", want)
				synctest.Wait()
				if n := w.server.Counters().TurnedAway[test.why]; n != int64(refused) {
					t.Errorf("%d counted of %d", n, refused)
				}
				w.wantResults(map[Outcome]int{Refused: refused})
				for _, p := range peers {
					p.Send(tftptest.ErrorPacket(0, "enough"))
				}
				time.Sleep(3 * time.Second)
				if test.code == transfer.AccessViolation {
					return
				}
				p := w.raw(otherIP) // another peer is served, because the resources are free again
				defer p.Close()
				p.Send(tftptest.RRQ("image"))
				p.Want("after a while", tftptest.Data(1, want[:512]))
				p.Send(tftptest.ErrorPacket(0, "enough"))
			})
		})
	}
}

// Refusals cannot be used for attacks, because an address gets only a few per second.
func TestRefusalsAreRateLimited(t *testing.T) {
	inWorld(t, func(_ *simWorld, s *Config) { s.Rate, s.Loops = 10, 1 }, func(w *simWorld) {
		out := 0
		w.net.Tap = func(p sim.Packet) bool {
			if p.To.Addr() == netip.MustParseAddr(otherIP) {
				out++
			}
			return true
		}
		p := w.raw(otherIP)
		defer p.Close()
		for i := range 1000 {
			p.Send(tftptest.RRQ(fmt.Sprint("missing", i)))
		}
		synctest.Wait()
		if most := 2*10 + 2*maxRefused; out > most || out < maxRefused {
			t.Errorf("%d answers to 1000 requests at once, want at most %d", out, most)
		}
		if n := w.server.Counters().TurnedAway[Rate]; n < 900 {
			t.Errorf("%d counted", n)
		}
	})
}

// TestAmplification measures how many bytes the server sends to a victim that never sent a request,
// for each byte of forged requests. docs/tftp.md promises these figures.
func TestAmplification(t *testing.T) {
	const requests = 400
	tests := []struct {
		name    string
		request func(i int) []byte
		most    float64 // most bytes sent for each byte received, including the IP and UDP headers
	}{
		{"no options", func(int) []byte { return tftptest.RRQ("image") }, 20},
		{"no options, other modes", func(int) []byte { return tftptest.Packet(1, "image", "NETASCII", nil) }, 20},
		{"empty file", func(int) []byte { return tftptest.RRQ("empty") }, 3},
		{"options", func(int) []byte {
			return tftptest.RRQ("image", "blksize", "65464", "windowsize", "65535", "tsize", "0")
		}, 4},
		{"upload", func(i int) []byte { return tftptest.WRQ(fmt.Sprint("new", i)) }, 4},
		{"upload with options", func(i int) []byte { return tftptest.WRQ(fmt.Sprint("new", i), "blksize", "8", "windowsize", "2") }, 4},
		{"missing", func(int) []byte { return tftptest.RRQ("missing") }, 1.3},
		{"malformed", func(int) []byte { return []byte("\x00\x01x") }, 2},
		{"data", func(int) []byte { return tftptest.Data(1, nil) }, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(_ *simWorld, s *Config) { s.Rate = 0 }, func(w *simWorld) {
				w.put("image", 100_000)
				w.put("empty", 0)
				wantFactor := w.countBytes(otherIP)
				for i := range requests {
					p := w.raw(otherIP) // the victim sends no answers, not even an ERROR
					defer p.Close()
					p.Send(test.request(i))
				}
				wantFactor(test.most)
			})
		})
	}
}

// Forged requests that fill the table block others for at most a second.
func TestForgedRequestsMakeRoom(t *testing.T) {
	inWorld(t, func(_ *simWorld, s *Config) { s.MaxTransfers, s.Loops = 8, 1 }, func(w *simWorld) {
		want := w.put("image", 2000)
		real := w.raw(otherIP) // this transfer makes progress, so it must not be ended
		defer real.Close()
		real.Send(tftptest.RRQ("image"))
		real.Want("first block", tftptest.Data(1, want[:512]))
		real.Send(tftptest.ACK(1))
		real.Want("second block", tftptest.Data(2, want[512:1024]))
		for i := range 7 {
			p := w.raw(fmt.Sprintf("203.0.113.%d", 1+i))
			defer p.Close()
			p.Send(tftptest.RRQ("image"))
		}
		_, err := w.client().Get(context.Background(), target("image"), tftptest.Into(store.Mem(0), "image"))
		if err == nil || !strings.Contains(err.Error(), "busy") {
			t.Errorf("with all places taken: %v", err)
		}
		time.Sleep(unprovenAge)
		here := store.Mem(0)
		if _, err := w.client().Get(context.Background(), target("image"), tftptest.Into(here, "image")); err != nil {
			t.Errorf("a second later: %v", err)
		}
		tftptest.WantFile(t, here, "image", want)
		real.Send(tftptest.ACK(2))
		real.Want("third block", tftptest.Data(3, want[1024:1536]))
		real.Send(tftptest.ErrorPacket(0, "enough"))
	})
}

// A list of unproven transfers stays short, even if its head stays.
func TestUnprovenListIsBounded(t *testing.T) {
	var q unprovenList
	stubborn := &session{unproven: true}
	q.add(stubborn)
	now := time.Unix(1e9, 0)
	for i := range 100_000 {
		s := &session{unproven: true, began: now.Add(time.Duration(i))}
		q.add(s)
		s.unproven = false
	}
	if len(q.list) > 2*minUnproven {
		t.Errorf("%d on the list, of whom one stands", len(q.list))
	}
	if q.oldest(now) != stubborn {
		t.Error("the oldest is not found")
	}
}

// The table of addresses is bounded. It forgets no address that has a transfer, even if as many
// addresses as possible have one. That may be twice MaxTransfers, including displaced transfers
// that wait for a store.
func TestSourcesAreBounded(t *testing.T) {
	const transfers, sources, each = minSources / 2, 5 * minSources, 256
	var g guard
	before := heap()
	g.reset(&Config{MaxTransfers: transfers, MaxPerClient: 1, Rate: 5})
	now := time.Unix(1e9, 0)
	busy := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, byte(i >> 16), byte(i >> 8), byte(i)}) }
	for i := range 2 * transfers {
		if _, err := g.begin(now, busy(i)); err != nil {
			t.Fatal(err)
		}
	}
	scans, last := 0, len(g.sources)
	for i := range sources {
		a := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		if err := g.request(now, a); err != nil {
			t.Fatal(err)
		}
		if len(g.sources) <= last {
			scans++
		}
		if last = len(g.sources); scans > sources/transfers {
			t.Fatalf("the table was looked through %d times for %d addresses", scans, i)
		}
	}
	if len(g.sources) > g.maxSources {
		t.Errorf("%d addresses kept, want at most %d", len(g.sources), g.maxSources)
	}
	if grown := heap() - before; grown > int64(g.maxSources*each) {
		t.Errorf("the heap has grown by %d bytes for %d addresses", grown, g.maxSources)
	}
	for i := range 2 * transfers {
		if _, err := g.begin(now, busy(i)); err != errPerClient {
			t.Fatalf("a busy address was forgotten: %v", err)
		}
	}
}

// TestAmplificationWithForgedACKs measures how many bytes the server sends to a victim because of
// forged acknowledgements. Forgers can know the server's port: it is the port for requests, or one
// of a few ports. With forged ACK 0 packets alone, the server's own bound limits the data.
// docs/tftp.md promises these figures.
func TestAmplificationWithForgedACKs(t *testing.T) {
	window := []string{"blksize", "1428", "windowsize", "256"}
	jumbo := []string{"blksize", "8192", "windowsize", "256"}
	tests := []struct {
		name     string
		options  []string
		requests int
		known    bool  // the victim has just read a file
		acks     []int // numbers of the ACKs that are forged after each OACK, 100 ms apart
		most     float64
	}{
		{"one request", window, 1, false, []int{0}, 1200},
		{"one request, long blocks", jumbo, 1, false, []int{0}, 1200},
		{"one request, longest blocks", []string{"blksize", "65464"}, 1, false, []int{0}, 1600},
		{"one request in lock-step", []string{"blksize", "1428"}, 1, false, []int{0}, 200},
		{"many requests", window, 400, false, []int{0}, 170},
		{"ACK 0 repeated", window, 1, false, make([]int, 100), 100},
		{"first data acknowledged", window, 1, false, []int{0, 67}, 16000},
		{"victim is a client", window, 1, true, []int{0}, 8000},
		{"data acknowledged", window, 1, false, []int{0, 67, 67 + 256, 67 + 2*256, 67 + 3*256, 67 + 4*256}, 14000},
	}
	for _, test := range tests {
		for _, single := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, single port %v", test.name, single), func(t *testing.T) {
				inWorld(t, func(_ *simWorld, s *Config) { s.SinglePort = single }, func(w *simWorld) {
					w.put("f", 4<<20)
					if test.known {
						small := w.put("small", 1000)
						here := store.Mem(0)
						c := &simClient{new(tftpclient.Client), w.opener(otherIP)}
						if _, err := c.Get(context.Background(), target("small"), tftptest.Into(here, "small")); err != nil {
							t.Fatal(err)
						}
						c.Wait()
						tftptest.WantFile(t, here, "small", small)
					}
					wantFactor := w.countBytes(otherIP)
					var peers []*tftptest.Peer
					for range test.requests {
						p := w.raw(otherIP)
						defer p.Close()
						p.Send(tftptest.RRQ("f", test.options...))
						peers = append(peers, p)
					}
					for _, p := range peers {
						p.Next(tftptest.Patience) // receives the answer only to learn the port
					}
					for _, k := range test.acks {
						for _, p := range peers {
							p.Send(tftptest.ACK(k))
						}
						time.Sleep(100 * time.Millisecond)
					}
					wantFactor(test.most)
				})
			})
		}
	}
}

// The data sent to an address before it has acknowledged any is bounded, but the agreed window is
// not reduced. Once data is acknowledged, whole windows are sent.
func TestUnprovenCredit(t *testing.T) {
	inWorld(t, nil, func(w *simWorld) {
		want := w.put("image", 4<<20)
		const block = 8192
		var peers []*tftptest.Peer
		total := 0
		for i := range 10 {
			p := w.raw(otherIP)
			defer p.Close()
			peers = append(peers, p)
			p.Send(tftptest.RRQ("image", "blksize", "8192", "windowsize", "256"))
			p.Want("the window asked for", tftptest.OACK("blksize", "8192", "windowsize", "256"))
			p.Send(tftptest.ACK(0))
			blocks := 0
			for {
				got := p.Next(100 * time.Millisecond)
				if got == nil {
					break
				}
				if n := int(got[2])<<8 | int(got[3]); n == 256 {
					break // end of the window
				}
				blocks++
				total += block
			}
			if i == 0 && blocks != maxUnproven/block-1 {
				t.Errorf("%d blocks of the first window, want %d", blocks, maxUnproven/block-1)
			}
			if i > 0 && blocks != 1 {
				t.Errorf("%d blocks of a window, with no credit left", blocks)
			}
		}
		if total > maxUnproven+10*2*block {
			t.Errorf("%d bytes sent to an address that proved nothing", total)
		}
		peers[0].Send(tftptest.ACK(maxUnproven/block - 1))
		q := w.raw(otherIP)
		defer q.Close()
		q.Send(tftptest.RRQ("image", "blksize", "8192", "windowsize", "256"))
		q.Want("OACK", tftptest.OACK("blksize", "8192", "windowsize", "256"))
		q.Send(tftptest.ACK(0))
		for i := range 256 {
			q.Want("a whole window", tftptest.Data(i+1, want[i*block:(i+1)*block]))
		}
		for _, p := range append(peers, q) {
			p.Send(tftptest.ErrorPacket(0, "enough"))
		}
	})
}

// countBytes counts the bytes sent to the victim of forged requests, and those that the attacker
// sends. The returned function waits for the end of all transfers, and checks the ratio.
func (w *simWorld) countBytes(victim string) (wantFactor func(most float64)) {
	const headers = 20 + 8
	in, out, to := 0, 0, netip.MustParseAddr(victim)
	w.net.Tap = func(p sim.Packet) bool {
		if p.To.Addr() == to {
			out += len(p.Data) + headers
		} else {
			in += len(p.Data) + headers
		}
		return true
	}
	return func(most float64) {
		w.t.Helper()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if factor := float64(out) / float64(in); factor > most || out == 0 {
			w.t.Errorf("%d bytes for %d: a factor of %.1f, want at most %.1f", out, in, factor, most)
		}
	}
}
