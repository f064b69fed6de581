package tftp

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// Each test in this file imitates one client packet by packet, from its first packet to its last.
// docs/tftp.md lists the clients and their special treatment. Transcripts named client-* show the
// same packets.

// playClient runs a client against a server with a port for each loop, and against a server with a
// single port. Afterwards it checks the transfers: each is logged in one line, in the order of
// `want`, and is passed to Ended, which counts the transfers.
func playClient(t *testing.T, f func(*simWorld), want ...string) {
	t.Helper()
	for _, single := range []bool{false, true} {
		t.Run(fmt.Sprintf("single=%v", single), func(t *testing.T) {
			var mu sync.Mutex
			counted := map[Outcome]int{}
			inWorld(t, func(_ *simWorld, s *Config) {
				s.SinglePort = single
				s.Hooks.Ended = func(t *Transfer) {
					mu.Lock()
					defer mu.Unlock()
					counted[t.Outcome]++
				}
			}, func(w *simWorld) {
				f(w)
				synctest.Wait()
				w.log.mu.Lock()
				defer w.log.mu.Unlock()
				var got []string
				logged := map[Outcome]int{}
				for _, l := range w.log.lines {
					got = append(got, fmt.Sprintf("%s %s %s: %s", l["result"], l["direction"], l["file"], l["options"]))
					logged[Outcome(l["result"])]++
				}
				if !slices.Equal(got, want) {
					t.Errorf("logged\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				mu.Lock()
				defer mu.Unlock()
				if fmt.Sprint(counted) != fmt.Sprint(logged) {
					t.Errorf("Ended was called for %v, the log has %v", counted, logged)
				}
			})
		})
	}
}

var serverDoor = netip.MustParseAddrPort(serverIP + ":69")

// rawAt returns a peer on the given port; 0 means any.
func (w *simWorld) rawAt(ip string, port uint16) *tftptest.Peer {
	w.t.Helper()
	conn, err := w.opener(ip)(w.t.Context(), addrPort(ip, port), udp.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	return tftptest.NewPeer(w.t, conn, serverDoor)
}

// curl 7.88 always requests the same options. It gives up on an OACK with tsize 0.
func TestClientCurl(t *testing.T) {
	playClient(t, func(w *simWorld) {
		b := w.put("image", 700)
		w.put("empty", 0)
		p := w.raw(otherIP)
		defer p.Close()
		p.Ask(tftptest.RRQ("image", "tsize", "0", "blksize", "512", "timeout", "1"))
		p.Want("OACK", tftptest.OACK("blksize", "512", "tsize", "700", "timeout", "1"))
		p.Send(tftptest.ACK(0))
		p.Read(b, 512, 1)

		synctest.Wait()
		q := w.raw(otherIP)
		defer q.Close()
		q.Ask(tftptest.RRQ("empty", "tsize", "0", "blksize", "512", "timeout", "1"))
		q.Want("OACK without tsize", tftptest.OACK("blksize", "512", "timeout", "1"))
		q.Send(tftptest.ACK(0))
		q.Read(nil, 512, 1)

		synctest.Wait()
		r := w.raw(otherIP)
		defer r.Close()
		r.Ask(tftptest.WRQ("new", "tsize", "700", "blksize", "512", "timeout", "1"))
		r.Want("OACK", tftptest.OACK("blksize", "512", "tsize", "700", "timeout", "1"))
		r.Write(b, 512)
		tftptest.WantFile(t, w.mem, "new", b)
	},
		"done read image: octet blksize=512 tsize=700 timeout=1",
		"done read empty: octet blksize=512 timeout=1",
		"done write new: octet blksize=512 tsize=700 timeout=1")
}

// busybox 1.35 requests tsize, and with -b blksize before it.
func TestClientBusybox(t *testing.T) {
	playClient(t, func(w *simWorld) {
		b := w.put("image", 2000)
		p := w.raw(otherIP)
		defer p.Close()
		p.Ask(tftptest.RRQ("image", "tsize", "0"))
		p.Want("OACK", tftptest.OACK("tsize", "2000"))
		p.Send(tftptest.ACK(0))
		p.Read(b, 512, 1)

		synctest.Wait()
		q := w.raw(otherIP)
		defer q.Close()
		q.Ask(tftptest.RRQ("image", "blksize", "1432", "tsize", "0"))
		q.Want("OACK", tftptest.OACK("blksize", "1432", "tsize", "2000"))
		q.Send(tftptest.ACK(0))
		q.Read(b, 1432, 1)

		synctest.Wait()
		r := w.raw(otherIP)
		defer r.Close()
		r.Ask(tftptest.WRQ("new", "blksize", "1432", "tsize", "2000"))
		r.Want("OACK", tftptest.OACK("blksize", "1432", "tsize", "2000"))
		r.Write(b, 1432)
		tftptest.WantFile(t, w.mem, "new", b)
	},
		"done read image: octet tsize=2000",
		"done read image: octet blksize=1432 tsize=2000",
		"done write new: octet blksize=1432 tsize=2000")
}

// tftp-hpa 5.2 requests no options, uses netascii by default, and would wait for ever after an
// OACK.
func TestClientTFTPHPA(t *testing.T) {
	playClient(t, func(w *simWorld) {
		storetest.Put(t, w.mem, "text", []byte("one\ntwo\n"))
		b := w.put("image", 700)
		p := w.raw(otherIP)
		defer p.Close()
		p.Ask(tftptest.Packet(1, "text", "netascii", nil))
		p.Read([]byte("one\r\ntwo\r\n"), 512, 1)
		synctest.Wait()
		p.Ask(tftptest.Packet(2, "new", "netascii", nil)) // it uses the same port for all requests
		p.Want("ACK 0", tftptest.ACK(0))
		p.Write([]byte("one\r\ntwo\r\n"), 512)
		tftptest.WantFile(t, w.mem, "new", []byte("one\ntwo\n"))
		p.Ask(tftptest.RRQ("image"))
		p.Read(b, 512, 1)
	},
		"done read text: netascii",
		"done write new: netascii",
		"done read image: octet")
}

// atftp 0.8 sends --option "tsize enable" word by word, and multicast with an empty value.
func TestClientATFTP(t *testing.T) {
	playClient(t, func(w *simWorld) {
		b := w.put("image", 5000)
		p := w.raw(otherIP)
		defer p.Close()
		p.Ask(tftptest.RRQ("image", "tsize", "enable", "blksize", "1432", "windowsize", "8"))
		p.Want("OACK", tftptest.OACK("blksize", "1432", "windowsize", "8"))
		p.Send(tftptest.ACK(0))
		p.Read(b, 1432, 8)

		synctest.Wait()
		q := w.raw(otherIP)
		defer q.Close()
		q.Ask(tftptest.RRQ("image", "multicast", ""))
		q.Read(b, 512, 1)
	},
		"done read image: octet blksize=1432 windowsize=8",
		"done read image: octet")
}

// A ROM that never sends the last ACK has received its file nevertheless. Its next request is
// served before the server gives up waiting for that ACK.
func TestClientROMWithoutLastACK(t *testing.T) {
	playClient(t, func(w *simWorld) {
		b := w.put("image", 700)
		p, q := w.raw(otherIP), w.raw(otherIP)
		defer p.Close()
		defer q.Close()
		p.Ask(tftptest.RRQ("image"))
		p.Want("block 1", tftptest.Data(1, b[:512]))
		p.Send(tftptest.ACK(1))
		p.Want("block 2", tftptest.Data(2, b[512:]))
		q.Ask(tftptest.RRQ("image"))
		q.Read(b, 512, 1)
		time.Sleep(6 * time.Second)
	},
		"done read image: octet",
		"unconfirmed read image: octet")
}

// A ROM that has a complete file may request the next one from the same port so soon that the
// server receives the last ACK and the request together. The first transfer counts as done, and
// not as replaced.
func TestLastACKAndNextRequest(t *testing.T) {
	playClient(t, func(w *simWorld) {
		one, two := w.put("one", 100), w.put("two", 100)
		p := w.raw(otherIP)
		defer p.Close()
		p.Ask(tftptest.RRQ("one"))
		p.Read(one, 512, 1)
		p.Ask(tftptest.RRQ("two"))
		p.Read(two, 512, 1)
	},
		"done read one: octet",
		"done read two: octet")
}

// ROMs may send a request to the broadcast address. The answer comes from one of the server's
// addresses, and only one transfer begins, however many sockets receive the request.
func TestBroadcastRequest(t *testing.T) {
	if !udp.CanSharePort {
		t.Skip("this path does not learn the address that was asked")
	}
	tests := []struct {
		single bool
		loops  int
	}{{false, 1}, {false, 4}, {true, 1}, {true, 4}}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			mem := store.Mem(0)
			b := tftptest.Content("image", 700)
			storetest.Put(t, mem, "image", b)
			var begun atomic.Int64
			l := serveAt(t, testHooks{spread: true}, Config{
				Store: mem, Loops: test.loops, SinglePort: test.single,
				Hooks: Hooks{Started: func(*Transfer) { begun.Add(1) }},
			}, ":0")
			p := realPeer(t, l)
			p.To = netip.AddrPortFrom(netip.MustParseAddr("127.255.255.255"), l.Addr().Port())
			p.Send(tftptest.RRQ("image", "blksize", "600"))
			p.Want("OACK", tftptest.OACK("blksize", "600"))
			if p.To.Addr() != netip.MustParseAddr("127.0.0.1") {
				t.Errorf("answered from %v", p.To)
			}
			p.Send(tftptest.ACK(0))
			for n := 1; n <= 2; {
				switch got := p.Next(tftptest.Patience); {
				case got == nil:
					t.Fatal("no DATA comes")
				case transfer.OpcodeOf(got) == transfer.OptionAck:
					p.Send(tftptest.ACK(0))
				case bytes.Equal(got, tftptest.Data(n, b[(n-1)*600:min(n*600, len(b))])):
					p.Send(tftptest.ACK(n))
					n++
				}
			}
			if n := begun.Load(); n != 1 {
				t.Errorf("%d transfers for one request", n)
			}
		})
	}
}
