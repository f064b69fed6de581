package sftpclient

import (
	"github.com/haul-project/haul/internal/repeat"
	"github.com/haul-project/haul/sftp/internal/mux"

	"bufio"
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// A fakeServer is a server for tests of the client. It serves a store, and handles the requests of
// a session in order. Tests may change its behaviour.
type fakeServer struct {
	tree  store.Tree
	ext   wire.Extensions
	lim   wire.Limits
	link  netLink
	conns int // number of further connections; each has one session

	// sessions is how many sessions a connection may have; 0 means no limit.
	sessions int

	// hook, if set, is called for each request before it is handled. If it returns true, the
	// bytes it returns replace the answer.
	hook func(s *fakeSession, q wire.Request, reply []byte) ([]byte, bool)

	// plain makes sessions return the same handles as OpenSSH.
	plain bool

	// late, if set, returns the delay of the answer to a request. It can change the order of
	// answers.
	late func(q wire.Request) time.Duration

	mu       sync.Mutex
	open     []*fakeSession // guarded by mu
	opened   int            // total number of sessions; guarded by mu
	made     int            // number of connections made; guarded by mu
	first    *fakeCarrier   // the first connection; guarded by mu
	refused  int            // guarded by mu
	handles  int            // number of open handles; guarded by mu
	requests map[string]int // number of requests by type or extension; guarded by mu
	wait     sync.WaitGroup
}

func newFakeServer() *fakeServer {
	return &fakeServer{
		tree: store.Mem(1 << 30), ext: wire.AllExtensions, requests: map[string]int{},
		lim: wire.Limits{Packet: 256 << 10, Read: 255 << 10, Write: 255 << 10, Handles: 1000},
	}
}

// count returns how many requests of a kind were received.
func (p *fakeServer) count(kind string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[kind]
}

// openHandles returns how many handles are open.
func (p *fakeServer) openHandles() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.handles
}

// A fakeCarrier is a connection to a fakeServer.
type fakeCarrier struct {
	p        *fakeServer
	up, down netRoad

	mu   sync.Mutex
	live []*fakeSession // guarded by mu
	dead bool           // guarded by mu
}

func (p *fakeServer) connect() *fakeCarrier {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made++
	c := &fakeCarrier{p: p, up: netRoad{rate: p.link.shared}, down: netRoad{rate: p.link.shared}}
	if p.first == nil {
		p.first = c
	}
	return c
}

// endFirst ends the first connection.
func (p *fakeServer) endFirst() {
	p.mu.Lock()
	c := p.first
	p.mu.Unlock()
	_ = c.Close()
}

func (c *fakeCarrier) Ping() error {
	time.Sleep(c.p.link.roundTrip())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func (c *fakeCarrier) Close() error {
	c.mu.Lock()
	c.dead = true
	live := c.live
	c.mu.Unlock()
	for _, s := range live {
		s.kill()
	}
	return nil
}

func (c *fakeCarrier) openOne(trips int) (*netStream, error) {
	p := c.p
	time.Sleep(time.Duration(trips) * p.link.roundTrip())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return nil, io.ErrUnexpectedEOF
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	live := 0
	for _, s := range c.live {
		if !s.ended {
			live++
		}
	}
	if p.sessions > 0 && live >= p.sessions {
		p.refused++
		return nil, mux.ErrNoSession
	}
	here, there := newNetStreams(&p.link)
	if p.link.shared > 0 {
		here.out.road, here.in.road = &c.up, &c.down
	}
	p.opened++
	s := &fakeSession{p: p, n: p.opened, over: c, here: here, stream: there, handles: map[string]any{}}
	p.open = append(p.open, s)
	c.live = append(c.live, s)
	p.wait.Go(s.serve)
	return here, nil
}

func (c *fakeCarrier) Open(ctx context.Context, careful bool) (io.ReadWriteCloser, error) {
	trips := 1
	if careful {
		trips = 2
	}
	type result struct {
		s   *netStream
		err error
	}
	done := make(chan result, 1)
	c.p.wait.Go(func() {
		s, err := c.openOne(trips)
		done <- result{s, err}
	})
	select {
	case r := <-done:
		if r.err != nil {
			return nil, r.err
		}
		return r.s, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// client returns a client of p.
func (p *fakeServer) client(t testing.TB, config Config) *Client {
	t.Helper()
	c, err := p.dial(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (p *fakeServer) dial(config Config) (*Client, error) {
	connect := func(context.Context) (mux.Carrier, error) {
		time.Sleep(3 * p.link.roundTrip())
		p.mu.Lock()
		if p.conns == 0 {
			p.mu.Unlock()
			return nil, errors.New("no further connection")
		}
		p.conns--
		p.mu.Unlock()
		return p.connect(), nil
	}
	if p.conns == 0 {
		connect = nil
	}
	return newClient(context.Background(), p.connect(), true, config, connect)
}

// withFakeServer runs f in a bubble, with a server that configure may change and a client, and
// checks that nothing is left behind.
func withFakeServer(t *testing.T, config Config, configure func(*fakeServer), f func(t *testing.T, p *fakeServer, c *Client)) {
	t.Helper()
	repeat.OnFailure(t)
	synctest.Test(t, func(t *testing.T) {
		p := newFakeServer()
		if configure != nil {
			configure(p)
		}
		c := p.client(t, config)
		f(t, p, c)
		p.end(t, c)
	})
}

// end closes a client and checks that it leaves nothing behind on the server.
func (p *fakeServer) end(t testing.TB, c *Client) {
	t.Helper()
	wantIdle(t, c)
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	p.wait.Wait()
}

// wantIdle checks that nothing is in flight or held.
func wantIdle(t testing.TB, c *Client) {
	t.Helper()
	time.Sleep(time.Minute) // virtual time, until the last answer has arrived
	if s := c.mux.State(); s.InFlight != 0 || s.Transfers != 0 || s.Requests {
		t.Errorf("still under way: %+v", s)
	}
	if held := c.mux.State().Held; held != 0 {
		t.Errorf("%d bytes still held by files", held)
	}
}

// A fakeSession is one session of a fakeServer.
type fakeSession struct {
	p      *fakeServer
	n      int // number of the session on this server, from 1
	over   *fakeCarrier
	here   *netStream // the client's end of the stream, and the server's; nil over SSH
	stream *netStream
	to     io.Writer

	ended   bool           // guarded by p.mu
	handles map[string]any // store.Handle or store.Entries
	last    int
	send    sync.Mutex
}

// kill ends a session at once, and drops all bytes in flight.
func (s *fakeSession) kill() {
	s.here.in.end(true)
	s.here.out.end(true)
}

func (s *fakeSession) serve() {
	s.serveOver(s.stream)
	_ = s.stream.Close()
}

func (s *fakeSession) serveOver(stream io.ReadWriter) {
	s.to = stream
	defer func() {
		for h := range s.handles {
			_ = s.close(h)
		}
		s.p.mu.Lock()
		s.ended = true
		s.p.mu.Unlock()
	}()
	in := bufio.NewReaderSize(stream, 1<<10)
	var packet []byte
	for {
		head, err := in.Peek(4)
		if err != nil {
			return
		}
		n, err := wire.PacketLength(head)
		if err != nil {
			return
		}
		if cap(packet) < n {
			packet = make([]byte, n)
		}
		packet = packet[:n]
		if _, err := io.ReadFull(in, packet); err != nil {
			return
		}
		if !s.handle(packet) {
			return
		}
	}
}

// handle answers one request, and reports whether to continue.
func (s *fakeSession) handle(packet []byte) bool {
	p := s.p
	q, err := wire.ParseRequest(packet)
	if bad, ok := errors.AsType[*wire.Error](err); ok {
		if !bad.HasID {
			return false
		}
		return s.write(wire.AppendStatus(nil, bad.ID, bad.Status, ""))
	}
	kind := q.Type.String()
	if q.Type == wire.TypeExtended {
		kind = q.Extension.String()
	}
	p.mu.Lock()
	p.requests[kind]++
	p.mu.Unlock()
	if p.hook != nil {
		if reply, ok := p.hook(s, q, nil); ok {
			return s.write(reply)
		}
	}
	reply := s.answer(q)
	if p.late != nil {
		if d := p.late(q); d > 0 {
			p.wait.Go(func() {
				time.Sleep(d)
				s.write(reply)
			})
			return true
		}
	}
	return s.write(reply)
}

func (s *fakeSession) write(b []byte) bool {
	s.send.Lock()
	defer s.send.Unlock()
	_, err := s.to.Write(b)
	return err == nil
}

func (s *fakeSession) keep(v any) string {
	s.last++
	// Each session has different handles, with different lengths.
	h := fmt.Sprintf("%*d %d", 1+s.n%200, s.n, s.last)
	if s.p.plain {
		h = string(binary.BigEndian.AppendUint32(nil, uint32(s.last-1)))
	}
	s.handles[h] = v
	s.p.mu.Lock()
	s.p.handles++
	s.p.mu.Unlock()
	return h
}

func (s *fakeSession) close(h string) error {
	v, ok := s.handles[h].(io.Closer)
	if !ok {
		return fs.ErrInvalid
	}
	delete(s.handles, h)
	s.p.mu.Lock()
	s.p.handles--
	s.p.mu.Unlock()
	return v.Close()
}

// pattern returns n bytes that depend on the offset, so that data at a wrong offset is found.
func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	row := make([]byte, 256)
	for i := range row {
		row[i] = byte(i) ^ seed*101
	}
	// Set a row at a time, because the race detector checks each assignment of a byte.
	for at := 0; at < n; at += len(row) {
		key := bytes.Repeat([]byte{byte(at>>8)*31 ^ byte(at>>16)*7}, len(row))
		subtle.XORBytes(b[at:], row[:min(len(row), n-at)], key)
	}
	return b
}

// put stores a file on the server, without the client.
func (p *fakeServer) put(t testing.TB, name string, data []byte) {
	t.Helper()
	u, err := p.tree.Create(context.Background(), name, store.Create{Size: int64(len(data))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if err := u.Commit(); err != nil {
		t.Fatal(err)
	}
}

// treeOf returns a store in which the file f contains data. Several servers may share it.
func treeOf(t testing.TB, data []byte) store.Tree {
	t.Helper()
	p := newFakeServer()
	p.put(t, "f", data)
	return p.tree
}

// get returns the content of a file on the server.
func (p *fakeServer) get(t testing.TB, name string) []byte {
	t.Helper()
	f, err := p.tree.Open(context.Background(), name)
	if err != nil {
		t.Errorf("at the peer: %v", err)
		return nil
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		t.Errorf("at the peer: %v", err)
		return nil
	}
	// Read everything at once, because the race detector checks each byte of each copy.
	b := make([]byte, fi.Size()+1)
	n, err := f.ReadAt(b, 0)
	if n != len(b)-1 || err != io.EOF {
		t.Errorf("at the peer: ReadAt of %d bytes = %d, %v", len(b), n, err)
	}
	return b[:n]
}
