package tftp

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/leak"
	"github.com/haul-project/haul/internal/repeat"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/store/storetest"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// Tests with a testbed use a real server with a real directory. They send packets that no peer
// should send, or cause other faults. Meanwhile a good peer reads one file and writes another. At
// the end of a case, nothing may be left of it.

const (
	// maxGrowth is how many bytes the heap may grow in all cases of a test together. A leak of the
	// buffers of one loop would be larger.
	maxGrowth = 1 << 20

	// maxLogLine bounds a line of the log, in bytes: a name of 2 KiB may appear in it twice,
	// quoted.
	maxLogLine = 20 << 10

	// resendAfter is when a good peer considers one of its packets lost.
	resendAfter = 200 * time.Millisecond
)

// A testbed has a server, a good peer, and a peer that behaves badly.
type testbed struct {
	*testing.T
	dir    string // the served directory
	store  *localdir.Dir
	server *Server
	bad    *tftptest.Peer
	good   *goodPeer
	leaves bool // the case leaves transfers that the server must end itself
}

// watchHeap fails the test if the heap has grown at its end. A garbage collection takes too long
// to run one after each case.
func watchHeap(t *testing.T) {
	before := heapNow()
	t.Cleanup(func() {
		after := heapNow()
		for deadline := time.Now().Add(tftptest.Patience); after > before+maxGrowth && time.Now().Before(deadline); {
			after = heapNow()
		}
		if after > before+maxGrowth {
			t.Errorf("a heap of %d bytes, %d before", after, before)
		}
	})
}

// runCase runs a case on a server that configure has set up.
func runCase(t *testing.T, name string, configure func(*Config), f func(*testbed)) {
	t.Helper()
	before, log := usageNow(), &checkedLog{}
	t.Run(name, func(t *testing.T) {
		repeat.OnFailure(t)
		dir, st := realDir(t)
		s := Config{Store: st, Upload: OverwriteUploads, Loops: 1, MTU: -1, Log: slog.New(log)}
		if configure != nil {
			configure(&s)
		}
		t.Cleanup(func() { wantNoTemps(t, dir) }) // once the server has stopped
		l := serveAt(t, testHooks{}, s, badPeerAddr())
		tb := &testbed{T: t, dir: dir, store: st, server: l, bad: newBadPeer(t, l)}
		tb.good = newGoodPeer(t, l, st)
		f(tb)
		tb.good.finish()
		if !tb.leaves {
			tb.bad.Send(tftptest.ErrorPacket(0, "enough"))
			tb.wantNoTransfersBut(0)
		}
		if n := l.Counters().Crashes; n != 0 {
			t.Errorf("%d panics were caught", n)
		}
	})
	log.check(t, name)
	before.check(t, name)
}

// badPeerAddr is the address of the servers that bad peers attack, and of the bad peers themselves.
// The ports of a flood are soon free again. Clients in tests of other packages, which run at the
// same time, may then get these ports and receive the server's late answers. Those clients must not
// take the answers for their own. A client ignores answers from an address other than that of its
// server, so this address differs from the usual one.
func badPeerAddr() string {
	if runtime.GOOS == "linux" {
		return "127.0.7.1:0" // other systems have only one loopback address
	}
	return "127.0.0.1:0"
}

// newBadPeer returns a peer whose datagrams are sent and received one by one.
func newBadPeer(t testing.TB, l *Server) *tftptest.Peer {
	t.Helper()
	conn, err := udp.Listen(t.Context(), netip.MustParseAddrPort(badPeerAddr()), udp.Config{Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return tftptest.NewPeer(t, conn, l.Addr())
}

// askAgain makes the peer send to the port for requests again.
func (tb *testbed) askAgain() *tftptest.Peer {
	tb.bad.To, tb.bad.Last = tb.server.Addr(), nil
	return tb.bad
}

// another returns one more peer.
func (tb *testbed) another() *tftptest.Peer { return newBadPeer(tb.T, tb.server) }

// wantNoTransfersBut waits until all but n transfers have ended.
func (tb *testbed) wantNoTransfersBut(n int64) {
	tb.Helper()
	tb.wantCount("transfers are still under way", n, func(c Counters) int64 { return max(c.Live, n) })
}

// wantCount waits for a counter: a loop updates its counters after it has answered.
func (tb *testbed) wantCount(what string, want int64, of func(Counters) int64) {
	tb.Helper()
	for deadline := time.Now().Add(tftptest.Patience); of(tb.server.Counters()) != want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("%d %s, want %d", of(tb.server.Counters()), what, want)
		}
	}
}

// wantServed checks that the peer is served as if nothing had happened. Late answers to its earlier
// packets would arrive first and fail the check.
func (tb *testbed) wantServed(after string) {
	tb.Helper()
	p := tb.askAgain()
	p.Send(tftptest.RRQ(goodFile))
	p.Want("an answer after "+after, tftptest.Data(1, tb.good.want[:512]))
	p.Send(tftptest.ErrorPacket(0, "enough"))
}

// wantAnswer waits for a packet that begins with prefix. An ERROR must be complete, short, and
// without the server's paths.
func (tb *testbed) wantAnswer(p *tftptest.Peer, what string, prefix []byte) {
	tb.Helper()
	got := p.News()
	switch {
	case !bytes.HasPrefix(got, prefix):
		tb.Fatalf("%s: got %.60q, want %.60q", what, got, prefix)
	case transfer.OpcodeOf(got) != transfer.ErrorPacket:
	case len(got) < 5 || len(got) > 4+128+1 || bytes.IndexByte(got[4:], 0) != len(got)-5:
		tb.Errorf("%s: ERROR is malformed: %q", what, got)
	case strings.Contains(string(got), tb.dir):
		tb.Errorf("%s: ERROR reveals our paths: %q", what, got)
	}
}

// In a table, taken means that the request succeeds, without an ERROR.
const taken = 99

// says returns the beginning of an ERROR with the given code.
func says(code transfer.ErrorCode) []byte { return []byte{0, 5, byte(code >> 8), byte(code)} }

// The good peer's files.
const (
	goodFile   = "good"
	goodUpload = "good upload"
)

// A goodPeer reads a file and writes another, block by block, and must not be disturbed.
type goodPeer struct {
	t              testing.TB
	store          store.Store
	reader, writer *tftptest.Peer
	want           []byte // content of both files
	got            []byte // data read so far
	read, written  int    // number of blocks
}

func newGoodPeer(t testing.TB, l *Server, st store.Store) *goodPeer {
	t.Helper()
	b := &goodPeer{t: t, store: st, want: tftptest.Content(goodFile, 10*512+100)}
	storetest.Put(t, st, goodFile, b.want)
	b.reader, b.writer = newBadPeer(t, l), newBadPeer(t, l)
	b.begin(l.Addr())
	return b
}

// begin starts both transfers.
func (b *goodPeer) begin(port netip.AddrPort) {
	b.t.Helper()
	b.reader.To, b.writer.To = port, port
	b.got, b.read, b.written = nil, 0, 0
	b.ask(b.writer, tftptest.WRQ(goodUpload), tftptest.ACK(0))
	b.take(tftptest.RRQ(goodFile))
	b.step()
}

// step transfers a block in each direction. It reports whether more blocks follow.
func (b *goodPeer) step() bool {
	b.t.Helper()
	if len(b.got) < len(b.want) {
		b.take(tftptest.ACK(b.read))
	}
	if from := b.written * 512; from < len(b.want) {
		b.written++
		b.ask(b.writer, tftptest.Data(b.written, b.want[from:min(from+512, len(b.want))]), tftptest.ACK(b.written))
	}
	return len(b.got) < len(b.want) || b.written*512 < len(b.want)
}

func (b *goodPeer) take(packet []byte) {
	b.t.Helper()
	b.read++
	block := b.want[len(b.got):min(len(b.got)+512, len(b.want))]
	b.ask(b.reader, packet, tftptest.Data(b.read, block))
	b.got = append(b.got, block...)
}

// finish transfers the remaining blocks, and checks the written file.
func (b *goodPeer) finish() {
	b.t.Helper()
	for b.step() {
	}
	b.reader.Send(tftptest.ACK(b.read))
	if !bytes.Equal(b.got, b.want) {
		b.t.Error("the good peer has read something else than its file")
	}
	tftptest.WantFile(b.t, b.store, goodUpload, b.want)
}

// ask sends a packet until the answer arrives, because packets may be lost in a flood. Repeats of
// earlier answers do not count.
func (b *goodPeer) ask(p *tftptest.Peer, packet, answer []byte) {
	b.t.Helper()
	for deadline := time.Now().Add(tftptest.Patience); time.Now().Before(deadline); {
		p.Send(packet)
		for got := p.Next(resendAfter); got != nil; got = p.Next(resendAfter) {
			if bytes.Equal(got, answer) {
				return
			}
			if bytes.Equal(got[:2], answer[:2]) && got[3] == answer[3] || transfer.OpcodeOf(got) == transfer.ErrorPacket {
				b.t.Fatalf("the good peer got %.60q, want %.60q", got, answer)
			}
		}
	}
	b.t.Fatalf("the good peer waited %v for %.60q", tftptest.Patience, answer)
}

// A usage is the number of resources of this process.
type usage struct {
	goroutines int
	open       leak.Open
}

func usageNow() usage { return usage{runtime.NumGoroutine(), leak.Descriptors()} }

func heapNow() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// check waits until the process uses no more than before.
func (u usage) check(t *testing.T, after string) {
	t.Helper()
	n := runtime.NumGoroutine()
	for deadline := time.Now().Add(tftptest.Patience); n > u.goroutines && time.Now().Before(deadline); n = runtime.NumGoroutine() {
		time.Sleep(time.Millisecond)
	}
	if n > u.goroutines {
		t.Errorf("%s: %d goroutines, %d before", after, n, u.goroutines)
	}
	if left := u.open.Left(); len(left) > 0 {
		t.Errorf("%s: descriptors left behind: %v", after, left)
	}
}

// A checkedLog is a text log with one line for each record. It counts the records.
type checkedLog struct {
	mu      sync.Mutex
	text    bytes.Buffer // guarded by mu
	records int          // guarded by mu
}

func (d *checkedLog) Enabled(context.Context, slog.Level) bool { return true }
func (d *checkedLog) WithAttrs([]slog.Attr) slog.Handler       { return d }
func (d *checkedLog) WithGroup(string) slog.Handler            { return d }

func (d *checkedLog) Handle(ctx context.Context, r slog.Record) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.records++
	return slog.NewTextHandler(&d.text, &slog.HandlerOptions{Level: slog.LevelDebug}).Handle(ctx, r)
}

// check checks that each record is one line, without control characters.
func (d *checkedLog) check(t *testing.T, after string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := 0
	for line := range strings.Lines(d.text.String()) {
		lines++
		if i := strings.IndexFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 }); i >= 0 {
			t.Errorf("%s: the log has a control character: %.200q", after, line[max(0, i-20):])
		}
		if len(line) > maxLogLine {
			t.Errorf("%s: the log has a line of %d bytes", after, len(line))
		}
	}
	if lines != d.records {
		t.Errorf("%s: %d lines for %d records", after, lines, d.records)
	}
}

// fetch reads a file block by block, and calls between after the first block. It returns the
// data, and the ERROR that ended the transfer, or nil.
func (tb *testbed) fetch(p *tftptest.Peer, name, mode string, between func()) (got []byte, fault []byte) {
	tb.Helper()
	p.Send(tftptest.Packet(1, name, mode, nil))
	for block := 1; ; block++ {
		b := p.News()
		switch {
		case transfer.OpcodeOf(b) == transfer.ErrorPacket:
			return got, b
		case !bytes.HasPrefix(b, tftptest.Data(block, nil)):
			tb.Fatalf("%s: got %.60q, want block %d", name, b, block)
		}
		got = append(got, b[4:]...)
		if block == 1 && between != nil {
			between()
		}
		p.Send(tftptest.ACK(block))
		if len(b) < 4+512 {
			return got, nil
		}
	}
}

// put writes a file block by block, and calls between after the first block. It returns the ERROR
// that ended the transfer, or nil.
func (tb *testbed) put(p *tftptest.Peer, name string, b []byte, between func()) (fault []byte) {
	tb.Helper()
	p.Send(tftptest.WRQ(name))
	for block := 0; ; block++ {
		got := p.News()
		switch {
		case transfer.OpcodeOf(got) == transfer.ErrorPacket:
			return got
		case !bytes.Equal(got, tftptest.ACK(block)):
			tb.Fatalf("%s: got %.60q, want ACK %d", name, got, block)
		}
		if block*512 > len(b) {
			return nil
		}
		if block == 1 && between != nil {
			between()
		}
		p.Send(tftptest.Data(block+1, b[block*512:min(len(b), block*512+512)]))
	}
}

// repeated returns the fields n times.
func repeated(n int, fields ...string) (all []string) {
	for range n {
		all = append(all, fields...)
	}
	return all
}

// padded returns a request of exactly n bytes, filled with an unknown option.
func padded(n int, request []byte) []byte {
	pad := n - len(request) - len("x\x00\x00")
	if pad < 0 {
		panic(fmt.Sprintf("%d bytes are more than %d", len(request), n))
	}
	return tftptest.Fields(request, "x", strings.Repeat("y", pad))
}
