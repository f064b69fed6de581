package sftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/internal/shares"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// rawSession begins a session on a channel of a raw connection.
func (s *rawSSH) rawSession(t *testing.T, number uint32) (*rawChannel, *sftpPeer) {
	t.Helper()
	theirs, err := s.open(number, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	c := &rawChannel{s: s, mine: number, theirs: theirs, granted: channelWindow}
	p := &sftpPeer{t: t, rw: c}
	p.begin()
	return c, p
}

// upload writes the given number of bytes, a multiple of 32 KiB, and waits for each answer.
func upload(p *sftpPeer, h string, bytes int) {
	p.t.Helper()
	data := testBytes(32 << 10)
	for off := 0; off < bytes; off += len(data) {
		p.write(h, int64(off), data)
	}
}

// window returns how many bytes the client may send on a channel without unread data.
func (c *rawChannel) window() int64 { return c.granted - c.sent }

// wantWindow checks the window, with a tolerance for bytes that the server has read and not
// returned yet.
func wantWindow(t *testing.T, c *rawChannel, want int64) {
	t.Helper()
	if got := c.window(); got > want || got < want-128<<10 {
		t.Errorf("the window has %d bytes, want %d", got, want)
	}
}

// One channel of a connection gets a wide window on the wire when it transfers much data. After
// it is closed, the next one does. The test fails with a version of x/crypto that counts
// differently: see addWindow.
func TestWideWindow(t *testing.T) {
	w := newTestServer(t, nil)
	s := newRawSSH(w.connect("192.0.2.1"))
	if err := s.login(); err != nil {
		t.Fatal(err)
	}
	first, p := s.rawSession(t, 0)
	h := p.open("a", openAnew)
	upload(p, h, wideFrom/2)
	wantWindow(t, first, channelWindow)
	upload(p, h, wideFrom)
	wantWindow(t, first, wideWindow)
	upload(p, h, 3*wideWindow)
	wantWindow(t, first, wideWindow)

	second, q := s.rawSession(t, 1)
	upload(q, q.open("b", openAnew), 2*wideFrom)
	wantWindow(t, second, channelWindow)
	if n := w.server.shared.windows.Count(); n != 1 {
		t.Errorf("%d wide windows are counted, want 1", n)
	}
	if w.server.shared.windows.Take(shares.SourceOf("", netip.MustParseAddr("192.0.2.1")), maxWide/2, wideBound) {
		t.Error("the wide window does not count for its address")
	}
	if err := s.write(message(msgChannelClose, first.theirs)); err != nil {
		t.Fatal(err)
	}
	p.wantEnd()
	third, q := s.rawSession(t, 2)
	upload(q, q.open("c", openAnew), 2*wideFrom)
	wantWindow(t, third, wideWindow)
}

// wantEnd waits until the server closes the channel.
func (p *sftpPeer) wantEnd() {
	p.t.Helper()
	for {
		if _, err := p.rw.Read(make([]byte, 4096)); err == io.EOF {
			return
		} else if err != nil {
			p.t.Fatal(err)
		}
	}
}

// A stuckTree blocks writes while it is stuck.
type stuckTree struct {
	store.Tree
	stuck   atomic.Bool
	release chan struct{}
}

func (s *stuckTree) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	h, err := s.Tree.OpenFile(ctx, name, a)
	return &stuckFile{h, s}, err
}

type stuckFile struct {
	store.Handle
	tree *stuckTree
}

func (f *stuckFile) WriteAt(p []byte, off int64) (int, error) {
	if f.tree.stuck.Load() {
		<-f.tree.release
	}
	return len(p), nil
}

// If clients have each sent a full window to a server that reads nothing, the data uses as much
// memory as their windows allow. At most maxWide of these windows are wide.
func TestWideWindowsFull(t *testing.T) {
	const clients, wide = maxWide + 8, 4
	tree := &stuckTree{release: make(chan struct{})}
	w := newTestServer(t, func(w *testServer, s *Server) {
		tree.Tree = w.tree
		s.Login = func(context.Context, *ssh.ServerConn) (*Account, error) { return &Account{Tree: tree}, nil }
	})
	type client struct {
		*rawChannel
		*sftpPeer
		handle string
	}
	var all []client
	var bytes int64
	for i := range clients {
		s := newRawSSH(w.connect(fmt.Sprintf("192.0.2.%d", i+1)))
		if err := s.login(); err != nil {
			t.Fatal(err)
		}
		c, p := s.rawSession(t, 0)
		h := p.open(fmt.Sprint(i), openAnew)
		upload(p, h, 2*wideFrom)
		want := int64(wideWindow)
		if i >= maxWide {
			want = channelWindow
		}
		wantWindow(t, c, want)
		all = append(all, client{c, p, h})
	}
	if n := w.server.shared.windows.Count(); n != maxWide {
		t.Errorf("%d windows are wide, want %d", n, maxWide)
	}
	before := heap()
	tree.stuck.Store(true)
	for _, c := range all[:wide] {
		bytes += c.window()
		for off := int64(0); c.window() > 64<<10; off += 32 << 10 {
			c.send(wire.AppendWrite(nil, c.n(), c.handle, off, []byte(testBytes(32<<10))))
		}
	}
	if grown := heap() - before; grown > bytes+bytes/4+wide<<20 {
		t.Errorf("%d bytes of data take %d bytes", bytes, grown)
	}
	close(tree.release)
	tree.stuck.Store(false)
	for _, c := range all {
		c.s.nc.Close()
	}
	w.end()
	if n := w.server.shared.windows.Count(); n != 0 {
		t.Errorf("%d wide windows are still counted", n)
	}
}

// A wideSource is a packetSource whose window can be widened like that of x/crypto.
type wideSource struct {
	*packetSource
	windowMu             sync.Mutex
	myWindow, myConsumed uint32
}

// The quota of a channel with a wide window is larger by the difference, and no more. As much of
// its data is moved to memory as for other channels, because its client gets that much window
// again.
func TestQuotaWide(t *testing.T) {
	quota, await, why := newTestQuota(t)
	p := &wideSource{packetSource: newPacketSource(quota)}
	q := quota.open(p)
	b := make([]byte, 64<<10)
	p.send(2*wideFrom, 2*wideFrom)
	for range wideFrom / len(b) {
		if _, err := q.Read(b); err != nil {
			t.Fatal(err)
		}
	}
	if p.myConsumed != wideWindow-channelWindow || q.window != wideWindow {
		t.Fatalf("%d bytes more are offered, and the quota expects a window of %d", p.myConsumed, q.window)
	}
	p.send(wideWindow-wideFrom, wideWindow-wideFrom)
	if *why != nil {
		t.Errorf("a full window ends it: %v", *why)
	}
	sent, moved := 0, 0
	for ; *why == nil && sent < 1<<30; sent += 3600 {
		p.send(100, 3600)
		// Wait for the reader. Otherwise the channel could seem to be empty while it holds data,
		// and the quota would allow another full window.
		for !q.isStill() && !p.isRead() {
			runtime.Gosched()
		}
		quota.mu.Lock()
		moved = max(moved, cap(q.buffered))
		quota.mu.Unlock()
	}
	p.close()
	await()
	if moved != maxMoved {
		t.Errorf("%d bytes are moved to memory, want %d", moved, maxMoved)
	}
	if most := 2*(wideWindow+quotaSlack) + quotaStep + wideWindow; !errors.Is(*why, errFlood) || sent > most {
		t.Errorf("after %d bytes it ends by %v, want at most %d", sent, *why, most)
	}
	quota.close(q)
	if n := quota.windows.Count(); n != 0 {
		t.Errorf("%d wide windows are still counted", n)
	}
}

// The connections of one source have at most half of the wide windows, and others can have the rest.
func TestWideWindowShares(t *testing.T) {
	var windows shares.Table
	ones := func(from string) (n int) {
		for range maxWide {
			quota, _, _ := newTestQuota(t)
			quota.windows, quota.source = &windows, shares.SourceOf("", netip.MustParseAddr(from))
			p := &wideSource{packetSource: newPacketSource(quota)}
			q := quota.open(p)
			t.Cleanup(func() { quota.close(q) })
			p.send(wideFrom, wideFrom)
			if _, err := io.ReadFull(q, make([]byte, wideFrom)); err != nil {
				t.Fatal(err)
			}
			if q.window == wideWindow {
				n++
			}
		}
		return n
	}
	if one, other := ones("192.0.2.1"), ones("192.0.2.2"); one != maxWide/2 || other != maxWide/4 {
		t.Errorf("%d of one source are wide, and %d of another one", one, other)
	}
}

// A session that continues to read after its channel has ended gets no wide window, which nothing
// would return.
func TestNoWideWindowAtTheEnd(t *testing.T) {
	quota, _, _ := newTestQuota(t)
	p := &wideSource{packetSource: newPacketSource(quota)}
	q := quota.open(p)
	p.send(channelWindow, channelWindow)
	quota.close(q)
	if _, err := io.ReadFull(q, make([]byte, channelWindow)); err != nil {
		t.Fatal(err)
	}
	if n := quota.windows.Count(); n != 0 || q.window != channelWindow || p.myConsumed != 0 {
		t.Errorf("%d wide windows are counted, the window has %d bytes, and %d more are offered", n, q.window, p.myConsumed)
	}
}

// A channel whose structure is not that of a known version of x/crypto keeps its window.
func TestAddWindow(t *testing.T) {
	type (
		good struct {
			other                string
			windowMu             sync.Mutex
			myWindow, myConsumed uint32
		}
		noMutex struct{ myWindow, myConsumed uint32 }
		signed  struct {
			windowMu   sync.Mutex
			myWindow   uint32
			myConsumed int32
		}
		longer struct {
			windowMu             sync.Mutex
			myWindow, myConsumed uint64
		}
		readWrite struct {
			windowMu             sync.RWMutex
			myWindow, myConsumed uint32
		}
		pointer struct {
			windowMu             *sync.Mutex
			myWindow, myConsumed uint32
		}
		renamed struct {
			windowMu           sync.Mutex
			myWindow, consumed uint32
		}
		embeds struct{ *good }
	)
	for _, channel := range []any{
		nil, 1, "channel", (*good)(nil), good{}, new(int), &noMutex{}, &signed{}, &longer{}, &readWrite{}, &pointer{}, &renamed{}, &embeds{}, &embeds{&good{}},
		&good{myWindow: channelWindow + 1}, &good{myWindow: channelWindow, myConsumed: 1},
	} {
		before := fmt.Sprintf("%+v", channel)
		if addWindow(channel, 1000) || fmt.Sprintf("%+v", channel) != before {
			t.Errorf("%T %s became %+v", channel, before, channel)
		}
	}
	c := &good{myWindow: channelWindow - 30, myConsumed: 20}
	if !addWindow(c, 1000) || c.myConsumed != 1020 || c.myWindow != channelWindow-30 {
		t.Errorf("became %+v", c)
	}

	quota, _, _ := newTestQuota(t)
	p := newPacketSource(quota)
	q := quota.open(p)
	p.send(2*wideFrom, 2*wideFrom)
	if _, err := io.ReadFull(q, make([]byte, 2*wideFrom)); err != nil {
		t.Fatal(err)
	}
	if n := quota.windows.Count(); n != 0 || q.window != channelWindow {
		t.Errorf("a channel that cannot have one has a window of %d, and %d are counted", q.window, n)
	}
}
