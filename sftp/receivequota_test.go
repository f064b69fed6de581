package sftp

import (
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/internal/shares"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// A packetSource simulates x/crypto's buffer of a channel. Data arrives in packets, each of which
// is longer on the wire than its content.
type packetSource struct {
	quota   *receiveQuota
	mu      sync.Mutex
	change  *sync.Cond
	b       []byte // data that is not read yet; guarded by mu
	readers int    // number of readers that wait for data; guarded by mu
	closed  bool   // guarded by mu
}

func newPacketSource(quota *receiveQuota) *packetSource {
	p := &packetSource{quota: quota}
	p.change = sync.NewCond(&p.mu)
	return p
}

// send sends n bytes of data, which take `wire` bytes on the wire. Each packet is counted when it
// arrives.
func (p *packetSource) send(n, wire int) {
	p.mu.Lock()
	p.b = append(p.b, make([]byte, n)...)
	p.change.Broadcast()
	p.mu.Unlock()
	for wire > 0 {
		_ = p.quota.count(min(wire, 4096))
		wire -= 4096
	}
}

func (p *packetSource) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readers++
	p.change.Broadcast()
	defer func() { p.readers-- }()
	for len(p.b) == 0 {
		if p.closed {
			return 0, io.EOF
		}
		p.change.Wait()
	}
	n := copy(b, p.b)
	p.b = p.b[n:]
	return n, nil
}

// waitForReader waits until a reader waits for data.
func (p *packetSource) waitForReader() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.readers == 0 {
		p.change.Wait()
	}
}

// isRead reports whether a reader waits for data.
func (p *packetSource) isRead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.readers > 0 && len(p.b) == 0
}

func (p *packetSource) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.change.Broadcast()
}

// newTestQuota returns a quota after a login. The function await waits for the goroutines of the
// quota, and why returns the reason for which the quota has closed the connection.
func newTestQuota(t *testing.T) (quota *receiveQuota, await func(), why *error) {
	t.Helper()
	var work sync.WaitGroup
	why = new(error)
	quota = &receiveQuota{run: work.Go, windows: &shares.Table{}, poke: func() { quota.wrote.Add(1) }}
	quota.stop = func(err error) {
		if *why == nil {
			*why = err
		}
	}
	quota.known.Store(true)
	return quota, work.Wait, why
}

// Windows full of data are within the quota, on any number of channels, for any time.
func TestQuotaWindows(t *testing.T) {
	quota, _, why := newTestQuota(t)
	var all []*packetSource
	var queues []*queue
	for range 10 {
		p := newPacketSource(quota)
		all, queues = append(all, p), append(queues, quota.open(p))
	}
	for _, p := range all {
		p.send(channelWindow, channelWindow*21/20)
	}
	b := make([]byte, 64<<10) // never more than available
	for range race.Fewer(500, 5) {
		for i, q := range queues {
			if n, err := q.Read(b); n != len(b) || err != nil {
				t.Fatal(n, err)
			}
			all[i].send(len(b), len(b)*21/20)
		}
	}
	for _, q := range queues {
		if q.buffered != nil {
			t.Error("something was moved")
		}
	}
	if *why != nil {
		t.Error(*why)
	}
}

// A channel whose reader waits is not blamed for packets to other channels. A channel whose session
// does something else meanwhile is not blamed either, for example if the session writes to a peer
// that reads only on another channel. Its data is moved to memory, and read in order.
func TestQuotaOthers(t *testing.T) {
	quota, _, why := newTestQuota(t)
	slow, busy := newPacketSource(quota), newPacketSource(quota)
	q, r := quota.open(slow), quota.open(busy)
	another := func() { // sends 20 bytes of data on the other channel; most bytes on the wire are not data
		busy.send(20, 100_000)
		quota.wrote.Add(1) // an answer
		if n, err := r.Read(make([]byte, 100)); n != 20 || err != nil {
			t.Fatal(n, err)
		}
		for q.isToMove() {
			runtime.Gosched()
		}
	}
	others := func() { // half a gigabyte
		for range 5_000 {
			another()
		}
	}
	got := make(chan string, 1)
	read := func() {
		var b [100]byte
		n, err := q.Read(b[:])
		if err != nil {
			t.Error(err)
		}
		got <- string(b[:n])
	}
	go read()
	slow.waitForReader()
	others()
	slow.sendText("first")
	if s := <-got; s != "first" {
		t.Errorf("%q comes first", s)
	}
	slow.sendText("second")
	others()
	// The reader that moved the data may be slow to return; then send more until it reads again.
	for !slow.isRead() {
		another()
	}
	if string(q.buffered) != "second" {
		t.Errorf("moved: %q", q.buffered)
	}
	slow.sendText("third")
	for q.isToMove() || !q.isStill() {
		runtime.Gosched()
	}
	go read()
	if s := <-got; s != "secondthird" || q.buffered != nil {
		t.Errorf("%q comes then, and %q is left", s, q.buffered)
	}
	slow.close()
	if n, err := q.Read(make([]byte, 10)); n != 0 || err != io.EOF {
		t.Errorf("at the end: %d, %v", n, err)
	}
	if *why != nil {
		t.Error(*why)
	}
}

func (p *packetSource) sendText(s string) {
	p.mu.Lock()
	p.b = append(p.b, s...)
	p.change.Broadcast()
	p.mu.Unlock()
	_ = p.quota.count(len(s))
}

// isToMove reports whether the data of a channel is to be moved, and no reader waits for more data.
func (q *queue) isToMove() bool {
	q.quota.mu.Lock()
	defer q.quota.mu.Unlock()
	return q.moving && !q.waits
}

// isStill reports whether no data is being moved.
func (q *queue) isStill() bool {
	q.quota.mu.Lock()
	defer q.quota.mu.Unlock()
	return !q.moving
}

// If tiny packets are not read, the connection is closed before the memory for them exceeds a bound,
// on any number of channels.
func TestQuotaFlood(t *testing.T) {
	for _, channels := range []int{1, 10} {
		quota, await, why := newTestQuota(t)
		var all []*packetSource
		var queues []*queue
		for range channels {
			p := newPacketSource(quota)
			all, queues = append(all, p), append(queues, quota.open(p))
		}
		sent, left := 0, int64(0) // upper bound of the data in x/crypto
		for *why == nil && sent < 1<<30 {
			all[sent/3600%channels].send(100, 3600)
			sent += 3600
			for _, q := range queues {
				for q.isToMove() {
					runtime.Gosched()
				}
				quota.mu.Lock()
				left = max(left, quota.excess()-q.base)
				quota.mu.Unlock()
			}
		}
		kept := 0
		for i, q := range queues {
			quota.mu.Lock()
			kept += cap(q.buffered)
			quota.mu.Unlock()
			all[i].close()
		}
		await()
		most := int64(2*quotaSlack + quotaStep + channels*channelWindow)
		if !errors.Is(*why, errFlood) || left > most || kept > channels*channelWindow {
			t.Errorf("%d channels: after %d bytes it ends by %v; up to %d were left and %d kept", channels, sent, *why, left, kept)
		}
	}
}

// The bound also holds for a server whose reader waits to send the peer more window, and so seems to
// wait for data.
func TestQuotaStuck(t *testing.T) { synctest.Test(t, testQuotaStuck) }

func testQuotaStuck(t *testing.T) {
	quota, await, why := newTestQuota(t)
	free := make(chan struct{})
	quota.poke = func() { <-free }
	p := newPacketSource(quota)
	q := quota.open(p)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = q.Read(make([]byte, 10))
	}()
	p.waitForReader()
	sent := 0
	for ; *why == nil && sent < 1<<30; sent += 4096 {
		_ = quota.count(4096)
	}
	if most := 2*quotaSlack + channelWindow + 2*quotaStep; !errors.Is(*why, errFlood) || sent > most {
		t.Errorf("after %d bytes: %v", sent, *why)
	}
	close(free)
	p.close()
	<-done
	await()
}

// A reader may really wait for data, because the peer sends only packets without data. The quota
// recognizes that, and does not close the connection.
func TestQuotaIgnored(t *testing.T) {
	quota, await, why := newTestQuota(t)
	p := newPacketSource(quota)
	q := quota.open(p)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = q.Read(make([]byte, 10))
	}()
	p.waitForReader()
	for range 100 {
		for range quotaStep / 4096 {
			_ = quota.count(4096)
		}
		await()
	}
	if *why != nil {
		t.Error(*why)
	}
	p.close()
	<-done
}

// A write that completes late, as on a busy machine, does not close the connection.
func TestQuotaLateWrite(t *testing.T) { synctest.Test(t, testQuotaLateWrite) }

func testQuotaLateWrite(t *testing.T) {
	quota, await, why := newTestQuota(t)
	poke := quota.poke
	quota.poke = func() {
		time.Sleep(tryTime / 2)
		poke()
	}
	p := newPacketSource(quota)
	q := quota.open(p)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = q.Read(make([]byte, 10))
	}()
	p.waitForReader()
	for range 100 * quotaStep / 4096 {
		_ = quota.count(4096)
	}
	if *why != nil {
		t.Error(*why)
	}
	p.close()
	<-done
	await()
}

// A peer that sends requests in packets of one byte and reads no answers can use only a bounded
// amount of memory, with or without sessions on its channels.
func TestTinyPackets(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	tests := map[string]struct {
		channels int
		begin    bool // open sessions, with a window of 1000 bytes
	}{
		"a session":         {1, true},
		"sessions":          {3, true},
		"channels, unused":  {3, false},
		"a channel, unused": {1, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && test.channels > 1 {
				t.Skip("some millions of packets")
			}
			w := newTestServer(t, nil)
			s := newRawSSH(w.connect("192.0.2.1"))
			if err := s.login(); err != nil {
				t.Fatal(err)
			}
			var theirs []uint32
			for i := range test.channels {
				if !test.begin {
					if err := s.write(message(msgChannelOpen, "session", uint32(i), uint32(1000), uint32(32<<10))); err != nil {
						t.Fatal(err)
					}
					b, err := s.wait(msgChannelConfirm)
					if err != nil {
						t.Fatal(err)
					}
					theirs = append(theirs, binary.BigEndian.Uint32(b[5:]))
					continue
				}
				id, err := s.open(uint32(i), 1000)
				if err != nil {
					t.Fatal(err)
				}
				theirs = append(theirs, id)
				b := wire.AppendInit(nil, 3)
				for range 1000 { // the window has no room for their answers
					b = wire.AppendRealpath(b, 1, ".")
				}
				if err := s.write(message(msgChannelData, id, b)); err != nil {
					t.Fatal(err)
				}
			}
			before, most := heap(), int64(0)
			window := channelWindow - 30_000
			if race.Enabled { // fewer packets are enough to check the goroutines
				window /= 16 * test.channels
			}
			pieces := make([][]byte, len(theirs))
			for i, id := range theirs {
				pieces[i] = message(msgChannelData, id, []byte{0})
			}
			total := window * len(theirs)
			for sent := range total {
				if err := s.write(pieces[sent%len(theirs)]); err != nil {
					t.Fatalf("after %d: %v", sent, err)
				}
				if sent%(total/8) == total/8-1 {
					most = max(most, heap()-before)
				}
			}
			if bound := int64(16<<20 + test.channels*5<<20); most > bound {
				t.Errorf("it takes %d bytes", most)
			}
			// No more than the limit has arrived, so the answers are still sent.
			if test.begin {
				if err := s.write(message(msgWindowAdjust, theirs[0], uint32(1<<30))); err != nil {
					t.Fatal(err)
				}
				if _, err := s.wait(msgChannelData); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
