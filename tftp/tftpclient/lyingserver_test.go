package tftpclient

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/protocol"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// A lyingServer answers requests with random packets, from any of its ports. If it sends data of a
// file, the data matches the block number.
type lyingServer struct {
	ports []*udp.Conn // requests are sent to the first one
	rng   *rand.Rand
	truth []byte
	block int // block size in bytes, if options are requested
	next  int // next block of the read
	sent  int
	calm  int // the higher this value, the fewer lies
}

func newLyingServer(t *testing.T, seed uint64, truth []byte) (*lyingServer, Target) {
	v := &lyingServer{rng: rand.New(rand.NewPCG(seed, 7)), truth: truth}
	v.block, v.calm = 8+v.rng.IntN(990), 20+100*int(seed%3)
	for range 3 {
		v.ports = append(v.ports, listenUDP(t, "127.0.0.1:0"))
	}
	a := v.ports[0].LocalAddr()
	return v, Target{Host: a.Addr().String(), Port: a.Port(), Name: "file"}
}

// serve answers requests until its port is closed, and returns how many packets arrived at all
// ports.
func (v *lyingServer) serve() (came int) {
	in := []udp.Message{{Data: make([]byte, 1<<16)}}
	for {
		n, err := v.ports[0].Read(in, time.Time{})
		if err != nil {
			break
		}
		came += n
		if q, err := protocol.ParseRequest(in[0].Data); n > 0 && err == nil {
			v.answer(in[0].Peer, q)
		}
	}
	for _, p := range v.ports[1:] {
		for n := 1; n > 0; came += n {
			n, _ = p.Read(in, time.Unix(1, 0))
		}
	}
	return came
}

// answer answers a request with many packets, followed by ERRORs.
func (v *lyingServer) answer(to netip.AddrPort, q transfer.Request) {
	home := v.ports[v.rng.IntN(len(v.ports))]
	send := func(from *udp.Conn, b []byte) {
		v.sent++
		_, _ = from.Write([]udp.Message{{Peer: to, Data: b}})
	}
	v.next = 1
	block := 512
	if q.Offer.BlockSize > 0 {
		block = v.block
		send(home, tftptest.OACK("blksize", fmt.Sprint(block), "windowsize", fmt.Sprint(q.Offer.Window)))
	}
	for range v.rng.IntN(60) {
		from := home
		if v.rng.IntN(6) == 0 {
			from = v.ports[v.rng.IntN(len(v.ports))]
		}
		send(from, v.say(q, block))
	}
	for _, p := range v.ports {
		send(p, tftptest.ErrorPacket(byte(v.rng.IntN(5)), "enough"))
	}
}

// say returns a packet that may or may not be an answer to a request.
func (v *lyingServer) say(q transfer.Request, block int) []byte {
	pick := func(of ...string) string { return of[v.rng.IntN(len(of))] }
	switch n := v.rng.IntN(v.calm); {
	case n == 0:
		o := tftptest.OACK(pick("blksize", "windowsize", "timeout", "tsize", "multicast", "rollover", "", "BLKSIZE"),
			pick("0", "-1", "8", "1", "512", "1000", "65464", "65535", "9223372036854775807", "9223372036854775808", "", "x"))
		return o[:len(o)-v.rng.IntN(2)]
	case n == 1:
		return tftptest.ErrorPacket(5, "unknown transfer ID")
	case n == 2:
		b := make([]byte, v.rng.IntN(8))
		for i := range b {
			b[i] = byte(v.rng.IntN(7))
		}
		return b
	case q.Write || n == 3:
		return tftptest.ACK(v.rng.IntN(8) * v.rng.IntN(2) * (1 + v.rng.IntN(2)*9000))
	}
	number, length := v.next, block
	switch v.rng.IntN(v.calm / 2) {
	case 0:
		number += v.rng.IntN(9) - 4 // the number of an earlier or a later block
	case 1:
		number += v.rng.IntN(1 << 16)
	case 2:
		length = v.rng.IntN(2 * block)
	default:
		v.next++
	}
	number = max(number, 0) & 0xffff
	off := min(max(0, number-1)*block, len(v.truth))
	b := tftptest.Data(number, v.truth[off:min(off+min(length, block), len(v.truth))])
	return append(b, bytes.Repeat([]byte{0xff}, max(0, length-block))...)
}

// Whatever a server answers, transfers end, and nothing is left open. No file appears that the
// server has not sent from its beginning. The client sends little more than it receives.
func TestHostileServers(t *testing.T) {
	client := &Client{BlockSize: 1000, Window: 4}
	const limit = time.Second
	for seed := range uint64(20) {
		for what, pool := range map[string]*Pool{
			"client":          nil,
			"own sockets":     {Client: client, Transfers: 8, Sockets: 8, Limit: limit},
			"shared sockets":  {Client: client, Transfers: 8, Sockets: 4, Limit: limit},
			"many per server": {Client: client, Transfers: 8, Sockets: 2, Limit: limit, ManyPerServer: true},
		} {
			t.Run(fmt.Sprint(what, " ", seed), func(t *testing.T) {
				t.Parallel()
				askLyingServer(t, seed, client, pool, limit)
			})
		}
	}
}

// askLyingServer fetches a few files from a lying server, and sends a few to it.
func askLyingServer(t *testing.T, seed uint64, client *Client, pool *Pool, limit time.Duration) {
	const transfers = 6
	truth, here := tftptest.Content("file", 60_000), store.Mem(0)
	v, to := newLyingServer(t, seed, truth)
	came := make(chan int, 1)
	go func() { came <- v.serve() }()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var all sync.WaitGroup
	all.Add(transfers)
	done := func(Result, error) { all.Done() }
	for i := range transfers {
		src, size, create := bytes.NewReader(truth), int64(len(truth)), tftptest.Into(here, fmt.Sprint(i))
		var err error
		switch put := i%3 == 2; {
		case pool == nil && put:
			go func() { done(client.Put(ctx, to, src, size)) }()
		case pool == nil:
			go func() { done(client.Get(ctx, to, create)) }()
		case put:
			err = pool.Put(t.Context(), to, src, size, done)
		default:
			err = pool.Get(t.Context(), to, create, done)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
	if pool != nil {
		pool.Close()
	}
	client.Wait()
	v.ports[0].Close()
	const byTimers = 2 * 20 // packets that timers send for each transfer, with and without options
	if n := <-came; n > v.sent+transfers*byTimers {
		t.Errorf("%d packets came for %d that were sent", n, v.sent)
	}
	for i := range transfers {
		f, err := here.Open(t.Context(), fmt.Sprint(i))
		if err != nil {
			continue
		}
		fi, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, fi.Size())
		_, _ = f.ReadAt(got, 0)
		f.Close()
		if !bytes.HasPrefix(truth, got) {
			t.Errorf("a file has %d bytes that are not what the server sent", len(got))
		}
	}
}
