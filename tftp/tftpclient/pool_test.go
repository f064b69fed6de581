package tftpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/poolhooks"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// A poolTest is a pool whose transfers a test waits for.
type poolTest struct {
	*Pool
	t     *testing.T
	mu    sync.Mutex
	ended map[string]error // guarded by mu
	all   sync.WaitGroup
}

func newPool(t *testing.T, p *Pool) *poolTest {
	t.Helper()
	pt := &poolTest{Pool: p, t: t, ended: make(map[string]error)}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		for _, lp := range p.loops {
			for _, s := range lp.sockets.servers {
				if s.queue.len() != 0 || s.uses != 0 || s.listed {
					t.Errorf("%v is left with %d requests and %d sockets", s.addr, s.queue.len(), s.uses)
				}
			}
			if lp.active != 0 || lp.dallying != 0 || lp.sockets.open != 0 || len(lp.timers.heap) != 0 || lp.inbox.load.Load() != 0 {
				t.Errorf("the loop ends with %d transfers, %d that dally, %d sockets, %d timers, a load of %d",
					lp.active, lp.dallying, lp.sockets.open, len(lp.timers.heap), lp.inbox.load.Load())
			}
		}
	})
	return pt
}

// done returns a function that records the end of a transfer.
func (pt *poolTest) done(key string) func(Result, error) {
	pt.all.Add(1)
	return func(_ Result, err error) {
		pt.mu.Lock()
		if _, twice := pt.ended[key]; twice {
			pt.t.Errorf("%s: ended twice", key)
		}
		pt.ended[key] = err
		pt.mu.Unlock()
		pt.all.Done()
	}
}

func (pt *poolTest) get(ctx context.Context, t Target, here store.Store, name string) {
	pt.t.Helper()
	if err := pt.Get(ctx, t, tftptest.Into(here, name), pt.done(name)); err != nil {
		pt.t.Fatal(err)
	}
}

func (pt *poolTest) put(ctx context.Context, t Target, b []byte) {
	pt.t.Helper()
	if err := pt.Put(ctx, t, onlyReaderAt{bytes.NewReader(b)}, int64(len(b)), pt.done(t.Name)); err != nil {
		pt.t.Fatal(err)
	}
}

// wait waits for all transfers, and returns their errors.
func (pt *poolTest) wait() map[string]error {
	pt.t.Helper()
	over := make(chan struct{})
	go func() {
		pt.all.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(6 * tftptest.Patience): // losses are repaired one after the other
		pt.mu.Lock()
		defer pt.mu.Unlock()
		pt.t.Fatalf("%d transfers have ended, and no more do", len(pt.ended))
	}
	return pt.ended
}

// onlyReaderAt hides the other methods of a source.
type onlyReaderAt struct{ io.ReaderAt }

// Two thousand transfers in both directions, begun at once, need only four sockets.
func TestPoolThousands(t *testing.T) {
	mem, here := store.Mem(0), store.Mem(0)
	sizes := []int{0, 1, 511, 512, 5000, 40_000, 100_000}
	for i, n := range sizes {
		name := fmt.Sprint("file", i)
		storetest.Put(t, mem, name, tftptest.Content(name, n))
	}
	l := serve(t, tftp.Config{Store: mem, Upload: tftp.CreateUploads})
	p := newPool(t, &Pool{Sockets: 4, Loops: 2})
	const transfers = 2000
	for i := range transfers {
		name := fmt.Sprint("file", i%len(sizes))
		if i%4 == 3 {
			p.put(t.Context(), at(l, fmt.Sprint("up", i)), tftptest.Content(name, sizes[i%len(sizes)]))
		} else {
			p.get(t.Context(), at(l, name), here, fmt.Sprint("down", i))
		}
	}
	for key, err := range p.wait() {
		if err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	for i := range transfers {
		name := fmt.Sprint("file", i%len(sizes))
		if i%4 == 3 {
			tftptest.WantFile(t, mem, fmt.Sprint("up", i), tftptest.Content(name, sizes[i%len(sizes)]))
		} else {
			tftptest.WantFile(t, here, fmt.Sprint("down", i), tftptest.Content(name, sizes[i%len(sizes)]))
		}
	}
	if st := p.Stats(); st.Answered != transfers || len(st.Idle) != 2 {
		t.Errorf("%+v", st)
	}
}

// If the network loses datagrams, all files still arrive undamaged, in both modes and with any
// options.
func TestPoolLossy(t *testing.T) {
	mem, here := store.Mem(0), store.Mem(0)
	text := []byte(strings.Repeat("a line\nand\r another\n", 500))
	storetest.Put(t, mem, "file", tftptest.Content("file", 50_000))
	storetest.Put(t, mem, "text", text)
	l := serve(t, tftp.Config{Store: mem, Upload: tftp.OverwriteUploads})
	for kind, c := range map[string]*Client{
		"fast": {}, "plain": {NoOptions: true}, "lockstep": {Window: 1, BlockSize: 1000}, "small": {Window: 7, BlockSize: 400}, "in order": {Window: 8, NoReorder: true},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			dice, asked := rand.New(rand.NewPCG(1, 2)), 0
			p := newPool(t, &Pool{Client: c, Sockets: 3})
			ctx := poolhooks.With(t.Context(), poolhooks.Hooks{Lose: func(bool) bool {
				mu.Lock()
				defer mu.Unlock()
				asked++
				return dice.Float64() < 0.1
			}})
			for i := range 6 {
				p.get(ctx, at(l, "file"), here, fmt.Sprint(kind, "down", i))
				p.put(ctx, at(l, fmt.Sprint(kind, "up", i)), tftptest.Content("file", 50_000))
			}
			asText := at(l, "text")
			asText.Mode = transfer.Netascii
			p.get(ctx, asText, here, kind+"text")
			asText.Name = kind + "up"
			p.put(ctx, asText, text)
			for key, err := range p.wait() {
				if err != nil {
					t.Errorf("%s: %v", key, err)
				}
			}
			if mu.Lock(); asked == 0 {
				t.Error("the pool does not ask which datagrams get lost")
			}
			mu.Unlock()
			for i := range 6 {
				tftptest.WantFile(t, here, fmt.Sprint(kind, "down", i), tftptest.Content("file", 50_000))
				tftptest.WantFile(t, mem, fmt.Sprint(kind, "up", i), tftptest.Content("file", 50_000))
			}
			tftptest.WantFile(t, here, kind+"text", text)
			tftptest.WantFile(t, mem, kind+"up", text)
		})
	}
}

// handServer returns a peer with which a test answers requests packet by packet.
func handServer(t *testing.T) (*tftptest.Peer, Target) {
	t.Helper()
	p := tftptest.NewPeer(t, listenUDP(t, "127.0.0.1:0"), netip.AddrPort{})
	a := p.Conn.LocalAddr()
	return p, Target{Host: a.Addr().String(), Port: a.Port(), Name: "file"}
}

func listenUDP(t *testing.T, at string) *udp.Conn {
	t.Helper()
	conn, err := udp.Listen(context.Background(), netip.MustParseAddrPort(at), udp.Config{Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// eachPool runs a test with a socket for each transfer, and with shared sockets.
func eachPool(t *testing.T, f func(t *testing.T, p *Pool)) {
	for name, p := range map[string]*Pool{
		"own sockets":    {Transfers: 8, Sockets: 8, Client: &Client{NoOptions: true}},
		"shared sockets": {Transfers: 8, Sockets: 2, Client: &Client{NoOptions: true}},
	} {
		t.Run(name, func(t *testing.T) { f(t, p) })
	}
}

// A stranger gets an ERROR for an unknown transfer ID, and disturbs nothing (RFC 1350 §4).
func TestPoolStranger(t *testing.T) {
	eachPool(t, func(t *testing.T, p *Pool) {
		server, to := handServer(t)
		stranger := tftptest.NewPeer(t, listenUDP(t, "127.0.0.1:0"), netip.AddrPort{})
		here, want := store.Mem(0), tftptest.Content("file", 600)
		pool := newPool(t, p)
		pool.get(t.Context(), to, here, "file")
		server.Want("the request", tftptest.RRQ("file"))
		own := tftptest.NewPeer(t, listenUDP(t, "127.0.0.1:0"), server.To)
		own.Send(tftptest.Data(1, want[:512]))
		own.Want("its answer", tftptest.ACK(1))
		stranger.To = own.To
		stranger.Send(tftptest.Data(2, []byte("wrong")))
		if p.Sockets < p.Transfers { // with a connected socket, the kernel answers
			stranger.WantError("the stranger", transfer.UnknownID)
		}
		own.Send(tftptest.Data(2, want[512:]))
		own.Want("the end", tftptest.ACK(2))
		if err := pool.wait()["file"]; err != nil {
			t.Error(err)
		}
		tftptest.WantFile(t, here, "file", want)
	})
}

// A pool returns the same errors as a Client.
func TestPoolErrors(t *testing.T) {
	eachPool(t, func(t *testing.T, p *Pool) {
		l := serve(t, tftp.Config{Store: store.Mem(0)})
		_, silent := handServer(t)
		closed := listenUDP(t, "127.0.0.1:0")
		nobody := Target{Host: "127.0.0.1", Port: closed.LocalAddr().Port(), Name: "file"}
		closed.Close()
		pool, here := newPool(t, p), store.Mem(0)
		pool.get(t.Context(), at(l, "missing"), here, "missing")
		pool.put(t.Context(), at(l, "refused"), []byte("x"))
		// The limit applies only to transfers that get no answer.
		limited := newPool(t, &Pool{Transfers: p.Transfers, Sockets: p.Sockets, Client: p.Client, Limit: 300 * time.Millisecond})
		limited.get(t.Context(), nobody, here, "nobody")
		limited.get(t.Context(), silent, here, "silent")
		if err := pool.Get(t.Context(), Target{Host: "127.0.0.1"}, tftptest.Into(here, "x"), nil); err == nil {
			t.Error("no name, and no error")
		}
		errs := pool.wait()
		tftptest.WantFault(t, errs["missing"], transfer.FileNotFound)
		tftptest.WantFault(t, errs["refused"], transfer.AccessViolation)
		errs = limited.wait()
		if err := errs["nobody"]; err == nil {
			t.Errorf("where no server listens: %v", err)
		}
		if err := errs["silent"]; err == nil || !strings.Contains(err.Error(), "not done in") {
			t.Errorf("where no server answers: %v", err)
		}
		for _, name := range []string{"missing", "nobody", "silent"} {
			tftptest.WantNoFile(t, here, name)
		}
	})
}

// After a server refuses options, the request is repeated without them (RFC 2347 §3).
func TestPoolOptionsRefused(t *testing.T) {
	server, to := handServer(t)
	p, here := newPool(t, &Pool{Client: &Client{BlockSize: 1000, Window: 2}}), store.Mem(0)
	p.get(t.Context(), to, here, "file")
	server.Want("the request", tftptest.RRQ("file", "blksize", "1000", "tsize", "0", "windowsize", "2"))
	server.Send(tftptest.ErrorPacket(8, "no options"))
	server.Want("the request again", tftptest.RRQ("file"))
	server.Send(tftptest.Data(1, []byte("content")))
	server.Want("the end", tftptest.ACK(1))
	if err := p.wait()["file"]; err != nil {
		t.Error(err)
	}
	tftptest.WantFile(t, here, "file", []byte("content"))
}

// The end of a context ends only its own transfer, whether that waits, requests or moves data.
// Close ends all transfers.
func TestPoolCancel(t *testing.T) {
	eachPool(t, func(t *testing.T, p *Pool) {
		p.Transfers = 3
		p.Sockets = min(p.Sockets, 3)
		server, to := handServer(t)
		pool, here := newPool(t, p), store.Mem(0)
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(nil)
		pool.get(ended, to, here, "before")
		if err := pool.wait()["before"]; !errors.Is(err, context.Canceled) {
			t.Errorf("a context that had ended: %v", err)
		}
		moving, stop := context.WithCancel(t.Context())
		to.Name = "moving"
		pool.get(moving, to, here, "moving")
		server.Want("the request", tftptest.RRQ("moving"))
		server.Send(tftptest.Data(1, make([]byte, 512)))
		server.Want("the answer", tftptest.ACK(1))
		stop()
		server.WantError("the end", transfer.NotDefined)
		if err := pool.wait()["moving"]; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled in the midst: %v", err)
		}
		to.Name = "asking"
		for i := range 6 {
			pool.get(t.Context(), to, here, fmt.Sprint("asking", i))
		}
		pool.Close()
		for key, err := range pool.wait() {
			if strings.HasPrefix(key, "asking") && !errors.Is(err, ErrPoolClosed) {
				t.Errorf("%s, when the pool was closed: %v", key, err)
			}
			tftptest.WantNoFile(t, here, key)
		}
		if err := pool.Get(t.Context(), to, tftptest.Into(here, "late"), nil); !errors.Is(err, ErrPoolClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// A file that cannot be stored ends the transfer, and is discarded.
func TestPoolStoreFails(t *testing.T) {
	mem := store.Mem(0)
	storetest.Put(t, mem, "file", tftptest.Content("file", 100_000))
	l := serve(t, tftp.Config{Store: mem})
	for what, limit := range map[string]int64{"no room": 1000, "room for a half": 60_000} {
		pool, here := newPool(t, &Pool{}), store.Mem(limit)
		create := func(int64) (store.Upload, error) {
			return here.Create(context.Background(), "file", store.Create{})
		}
		if err := pool.Get(t.Context(), at(l, "file"), create, pool.done("file")); err != nil {
			t.Fatal(err)
		}
		if err := pool.wait()["file"]; !errors.Is(err, store.ErrNoSpace) {
			t.Errorf("%s: %v", what, err)
		}
		tftptest.WantNoFile(t, here, "file")
	}
	pool := newPool(t, &Pool{})
	broken := func(int64) (store.Upload, error) { panic("a bug of the caller's") }
	if err := pool.Get(t.Context(), at(l, "file"), broken, pool.done("file")); err != nil {
		t.Fatal(err)
	}
	if err := pool.wait()["file"]; err == nil || !strings.Contains(err.Error(), "a bug") {
		t.Errorf("a panic: %v", err)
	}
}

// A vanishing accepts one block, and then makes the client vanish.
type vanishing struct{}

func (vanishing) WriteBlock(int64, []byte, bool, int64) error { return poolhooks.ErrVanish }

// A client that vanishes sends nothing more: no ACK, and no ERROR.
func TestPoolVanish(t *testing.T) {
	eachPool(t, func(t *testing.T, p *Pool) {
		server, to := handServer(t)
		pool := newPool(t, p)
		if err := pool.GetBlocks(t.Context(), to, vanishing{}, pool.done("file")); err != nil {
			t.Fatal(err)
		}
		server.Want("the request", tftptest.RRQ("file"))
		server.Send(tftptest.Data(1, make([]byte, 512)))
		if err := pool.wait()["file"]; !errors.Is(err, poolhooks.ErrVanish) {
			t.Errorf("it ended by %v", err)
		}
		server.WantNothing("the end", 50*time.Millisecond)
	})
}
