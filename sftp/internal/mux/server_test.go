package mux

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/leak"
	"github.com/haul-project/haul/sftp/internal/wire"
)

func TestMain(m *testing.M) { leak.Main(m, "haul/sftp") }

// A server has one file. It is a single connection, and serves each session over a pipe.
type server struct {
	// on, if set, sees each request before it is handled, with the number of its session,
	// from 1. It returns what to do with the request. It runs under mu.
	on func(session int, q *wire.Request) reaction

	mu       sync.Mutex
	data     []byte // content of the file; guarded by mu
	mtime    uint32 // guarded by mu
	sessions int    // number of sessions so far; guarded by mu
	open     []net.Conn
	wait     sync.WaitGroup
}

// A reaction says what a server does with a request.
type reaction int

const (
	answer reaction = iota
	ignore          // do not answer the request
	die             // end the session
)

func (s *server) Open(context.Context, bool) (io.ReadWriteCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions++
	here, there := net.Pipe()
	s.open = append(s.open, there)
	n := s.sessions
	s.wait.Go(func() { s.serve(n, there) })
	return here, nil
}

func (s *server) Ping() error { return nil }

func (s *server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.open {
		_ = c.Close()
	}
	return nil
}

func (s *server) serve(session int, conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		head, err := in.Peek(4)
		if err != nil {
			return
		}
		n, err := wire.PacketLength(head)
		if err != nil {
			return
		}
		packet := make([]byte, n)
		if _, err := io.ReadFull(in, packet); err != nil {
			return
		}
		q, err := wire.ParseRequest(packet)
		if err != nil {
			return
		}
		reply, dead := s.handle(session, &q)
		if dead {
			return
		}
		if _, err := conn.Write(reply); err != nil {
			return
		}
	}
}

func (s *server) handle(session int, q *wire.Request) (reply []byte, dead bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on != nil && q.Type != wire.TypeInit {
		switch s.on(session, q) {
		case ignore:
			return nil, false
		case die:
			return nil, true
		}
	}
	ok := wire.AppendStatus(nil, q.ID, wire.OK, "")
	switch q.Type {
	case wire.TypeInit:
		return wire.AppendVersion(nil, wire.ProtocolVersion, nil), false
	case wire.TypeOpen:
		if q.Flags&wire.OpenTruncate != 0 {
			s.data = nil
		}
		return wire.AppendHandle(nil, q.ID, fmt.Sprint("of session ", session)), false
	case wire.TypeStat, wire.TypeFstat:
		a := wire.Attrs{Flags: wire.AttrTimes, Mtime: s.mtime}
		a.SetSize(int64(len(s.data)))
		return wire.AppendAttrs(nil, q.ID, a), false
	case wire.TypeRead:
		if q.Offset >= int64(len(s.data)) {
			return wire.AppendStatus(nil, q.ID, wire.EOF, ""), false
		}
		return wire.AppendData(nil, q.ID, s.data[q.Offset:min(int64(len(s.data)), q.Offset+q.Length)]), false
	case wire.TypeWrite:
		end := q.Offset + int64(len(q.Data))
		if more := end - int64(len(s.data)); more > 0 {
			s.data = append(s.data, make([]byte, more)...)
		}
		copy(s.data[q.Offset:], q.Data)
		return ok, false
	case wire.TypeFsetstat:
		if q.Attrs.Has(wire.AttrSize) {
			s.data = s.data[:min(int64(len(s.data)), q.Attrs.Size)]
		}
		return ok, false
	case wire.TypeClose:
		return ok, false
	}
	return wire.AppendStatus(nil, q.ID, wire.Unsupported, ""), false
}

// content returns the present content of the file.
func (s *server) content() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]byte(nil), s.data...)
}

// testConfig allows two sessions on one connection.
var testConfig = Config{
	Conns: 1, Sessions: 2, Memory: 1 << 20, Timeout: 30 * time.Second, Stall: time.Minute,
	Refused: func(err error) error { return err },
}

// withServer runs f in a bubble with a mux for a server, and checks that nothing is left behind.
func withServer(t *testing.T, s *server, f func(t *testing.T, m *Mux)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m, err := New(t.Context(), s, true, testConfig)
		if err != nil {
			t.Fatal(err)
		}
		f(t, m)
		_ = m.Close()
		s.wait.Wait()
	})
}

// wantIdle checks that nothing is under way and that no buffer is held.
func wantIdle(t *testing.T, m *Mux) {
	t.Helper()
	time.Sleep(time.Minute) // until the last answer has arrived
	if s := m.State(); s.InFlight != 0 || s.Transfers != 0 || s.Requests || s.Closing != 0 || s.Held != 0 {
		t.Errorf("still under way: %+v", s)
	}
}

// openFile opens the file of a server.
func openFile(t *testing.T, m *Mux, flags wire.OpenFlags) *File {
	t.Helper()
	f := m.NewFile("f", flags)
	if _, err := f.Open(t.Context(), flags, wire.Attrs{}, OpenOptions{}); err != nil {
		t.Fatal(err)
	}
	old := f.Known.Size
	if flags&wire.OpenTruncate != 0 {
		old = 0
		f.Known = wire.Attrs{}
	}
	f.Live(t.Context(), old)
	return f
}

// pattern returns n bytes that differ from those at other offsets.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8*31 ^ i>>16*7)
	}
	return b
}

// A memoryFile is an io.WriterAt.
type memoryFile []byte

func (f memoryFile) WriteAt(p []byte, off int64) (int, error) { return copy(f[off:], p), nil }
