package writebehind

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/certs"
)

const (
	stall    = time.Minute
	headTime = 10 * time.Second
)

// A countedConn counts the writes of TLS below a Conn. Each is one record.
type countedConn struct {
	net.Conn
	writes atomic.Int64
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// pair returns a Conn with enough buffers, the connection below its TLS, and its peer. The network
// has no buffer.
func pair(t *testing.T) (c *Conn, below *countedConn, peer *tls.Conn) {
	t.Helper()
	return pairOf(t, newBudget(2))
}

// pairOf is pair with the buffers of b.
func pairOf(t *testing.T, b *budget) (c *Conn, below *countedConn, peer *tls.Conn) {
	t.Helper()
	here, there := net.Pipe()
	below = &countedConn{Conn: here}
	c, peer = overTLS(t, below, there, b)
	return c, below, peer
}

// overTLS returns a Conn over the connection here, and its peer over the other end.
func overTLS(t *testing.T, here, there net.Conn, b *budget) (c *Conn, peer *tls.Conn) {
	t.Helper()
	cert, err := certs.SelfSigned("x")
	if err != nil {
		t.Fatal(err)
	}
	s := tls.Server(here, &tls.Config{Certificates: []tls.Certificate{cert}, MaxVersion: tls.VersionTLS12, DynamicRecordSizingDisabled: true})
	peer = tls.Client(there, &tls.Config{InsecureSkipVerify: true})
	shaken := make(chan error, 1)
	go func() { shaken <- s.Handshake() }()
	if err := errors.Join(peer.Handshake(), <-shaken); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = there.Close(); _ = here.Close() })
	return newConn(s, stall, headTime, b), peer
}

// Writes of all sizes arrive in order, and Close loses none.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, peer := pair(t)
		var want []byte
		got := make(chan []byte)
		go func() {
			b, _ := io.ReadAll(peer)
			got <- b
		}()
		for i := range 200 {
			size := []int{1, 9, direct - 1, direct, recordSize + 9, 3 * bufferSize}[i%6]
			b := bytes.Repeat([]byte{byte(i)}, size)
			if n, err := c.Write(b); n != size || err != nil {
				t.Fatalf("%d of %d bytes, %v", n, size, err)
			}
			want = append(want, b...)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if b := <-got; !bytes.Equal(b, want) {
			t.Errorf("%d bytes come, want %d, or they differ", len(b), len(want))
		}
		if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a write after Close: %v", err)
		}
		if err := c.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a second Close: %v", err)
		}
	})
}

// A peer that reads nothing causes at most MaxBuffered bytes in memory, and loses the connection at
// the time limit. A reader of the connection ends as well.
func TestStalledPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := pair(t)
		began := time.Now()
		read := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			read <- err
		}()
		var accepted int
		var err error
		for err == nil {
			var n int
			n, err = c.Write(make([]byte, recordSize+9))
			accepted += n
		}
		if accepted > MaxBuffered || accepted < bufferSize {
			t.Errorf("%d bytes are buffered, want %d at most", accepted, MaxBuffered)
		}
		if took := time.Since(began); took != stall || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the write ends after %v by %v", took, err)
		}
		if err := <-read; err == nil {
			t.Error("the reader gets something")
		}
	})
}

// A peer may take any time in total if it accepts each record in time. After Close, it has the time
// of one record for the rest.
func TestSlowPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, peer := pair(t)
		taken := make(chan int, 1)
		go func() {
			total := 0
			for b := make([]byte, recordSize); ; {
				time.Sleep(stall - time.Second)
				n, err := io.ReadFull(peer, b)
				if total += n; err != nil {
					taken <- total
					return
				}
			}
		}()
		const size = 5 * bufferSize
		if _, err := c.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if n := <-taken; n < size-MaxBuffered || n > size-MaxBuffered+3*recordSize {
			t.Errorf("%d of %d bytes come", n, size)
		}
	})
}

// While the peer is slower than the writer, frames with their headers fill the records.
func TestFullRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, below, peer := pair(t)
		before := below.writes.Load()
		const frames = 8
		go func() {
			for range frames {
				_, _ = c.Write(make([]byte, recordSize+9))
			}
			_ = c.Close()
		}()
		synctest.Wait() // until the first frame waits for the peer, and the others are buffered
		if n, err := io.Copy(io.Discard, peer); n != frames*(recordSize+9) || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		// The first frame may take two records, if nothing follows it yet. The others fill one
		// each. Their headers together take one, and so does the alert at the end.
		const most = 2 + (frames - 1) + 1 + 1
		if n := below.writes.Load() - before; n > most {
			t.Errorf("%d frames take %d records, want %d at most", frames, n, most)
		}
	})
}

// Small answers are sent by the goroutine that writes them, and use no buffer.
func TestDirect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, peer := pair(t)
		go func() { _, _ = io.Copy(io.Discard, peer) }()
		for range 10 {
			if _, err := c.Write(make([]byte, direct-1)); err != nil {
				t.Fatal(err)
			}
		}
		if c.started || c.filling != nil {
			t.Error("a small write is buffered")
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A connection that is idle again has no buffer.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, peer := pair(t)
		go func() { _, _ = io.Copy(io.Discard, peer) }()
		if _, err := c.Write(make([]byte, 3*bufferSize)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if c.filling != nil || c.filled != 0 {
			t.Error("the buffer stays")
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Connections whose peers read nothing use no more memory together than the budget. Connections
// that get no buffer send without one, and each peer gets its bytes. At the end, all buffers are back in the
// budget.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, conns, size = 3, 5, 4*bufferSize + 9
		b := newBudget(most)
		var accepted atomic.Int64
		var all sync.WaitGroup
		var peers []*tls.Conn
		for i := range conns {
			c, _, peer := pairOf(t, b)
			peers = append(peers, peer)
			go func() {
				for left := bytes.Repeat([]byte{byte(i)}, size); len(left) > 0; {
					n, err := c.Write(left[:min(len(left), recordSize+9)])
					if accepted.Add(int64(n)); err != nil {
						t.Error(err)
						break
					}
					left = left[n:]
				}
				_ = c.Close()
			}()
		}
		synctest.Wait() // until all wait for their peers
		if n := accepted.Load(); n > most*bufferSize || n == 0 {
			t.Errorf("%d bytes are buffered, want %d at most", n, most*bufferSize)
		}
		for i, peer := range peers {
			all.Go(func() {
				got, _ := io.ReadAll(peer)
				if !bytes.Equal(got, bytes.Repeat([]byte{byte(i)}, size)) {
					t.Errorf("of connection %d, %d bytes come, want %d, or they differ", i, len(got), size)
				}
			})
		}
		all.Wait()
		time.Sleep(2 * stall)
		if n := b.left.Load(); n != most {
			t.Errorf("%d buffers are left, want %d", n, most)
		}
	})
}

// The buffers of a lost connection are returned.
func TestBudgetOfLostPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(2)
		c, _, _ := pairOf(t, b)
		if _, err := c.Write(make([]byte, 3*bufferSize)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v", err)
		}
		synctest.Wait()
		if n := b.left.Load(); n != 2 {
			t.Errorf("%d buffers are left, want 2", n)
		}
	})
}

// A slow reader gets all bytes and the end, although it reads only after Close, and sends data
// meanwhile, as HTTP/2 clients do for each part that they read.
func TestSlowReaderAtClose(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	there, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	here, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	// The kernel buffers little, so most of the data is in our buffers when Close is called.
	if err := errors.Join(here.(*net.TCPConn).SetWriteBuffer(32<<10), there.(*net.TCPConn).SetReadBuffer(32<<10)); err != nil {
		t.Fatal(err)
	}
	c, peer := overTLS(t, here, there, newBudget(2))
	if _, err := c.Write(make([]byte, MaxBuffered)); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	total := 0
	for b := make([]byte, recordSize); err == nil; {
		if _, err := peer.Write(make([]byte, 13)); err != nil {
			t.Fatalf("after %d bytes: %v", total, err)
		}
		time.Sleep(time.Millisecond)
		var n int
		n, err = peer.Read(b)
		total += n
	}
	if total != MaxBuffered || err != io.EOF {
		t.Errorf("%d of %d bytes come, then: %v", total, MaxBuffered, err)
	}
}

// If the peer of a closed connection has received everything, and keeps sending, the connection
// stays open for the duration `stall`.
func TestPeerSendsWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, peer := pair(t)
		if _, err := c.Write(make([]byte, bufferSize)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		go func() { _, _ = io.Copy(io.Discard, peer) }()
		for b := make([]byte, 100); ; time.Sleep(time.Second / 2) {
			if _, err := peer.Write(b); err != nil {
				break
			}
		}
		if took := time.Since(began); took < stall || took > stall+time.Second {
			t.Errorf("it ends after %v", took)
		}
	})
}
