package tcp

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"time"

	"github.com/haul-project/haul/tcp/internal/flow"
)

// Defaults of a Server with OnData.
const (
	DefaultMaxHeld   = 64 << 10
	DefaultMaxUnsent = 1 << 20
)

// Errors of connections that [Server.OnData] serves.
var (
	// ErrHeld says that OnData used none of [Server.MaxHeld] bytes.
	ErrHeld = flow.ErrHeld

	// ErrUnsent says that OnData wrote more than its client read, by [Server.MaxUnsent].
	ErrUnsent = flow.ErrUnsent

	// ErrPanicked says that OnData panicked. The panic is logged.
	ErrPanicked = errors.New("tcp: the handler panicked")
)

// An EventConn is a connection that [Server.OnData] serves. Its methods never wait. They
// may be called during a call of OnData or OnEnd for this connection, and at no other time.
type EventConn struct {
	// State is the program's, for what it knows about the connection.
	State any

	flow flow.Flow
	d    flow.Driver
	max  *flow.Limits
	c    *conn
	gen  uint32
	h    *Conn // without a loop, or once it was needed
	loopState
}

// Write sends b when the call of OnData returns, or earlier, and keeps what the client has
// no room for. b may be reused at once. While bytes are kept, OnData is not called and
// nothing is received. An error ends the connection.
func (e *EventConn) Write(b []byte) (int, error) { return e.flow.Write(b, e.d, *e.max) }

// Close ends the connection when all that was written is sent. OnData is not called for it
// any more.
func (e *EventConn) Close() { e.flow.Close() }

// Again has OnData called again when all that was written is sent, even if no more bytes
// arrive. With it a long answer can be written in parts that the client has room for.
func (e *EventConn) Again() { e.flow.Again() }

// Ended reports whether the client has ended sending. OnData is then called once more, or
// as long as it uses data or calls Again, and the connection ends.
func (e *EventConn) Ended() bool { return e.flow.Ended() }

// Draining reports whether the server ends. A connection that holds no bytes is then closed
// after OnData has returned and its answer is sent; one that has a goroutine, when no more
// bytes have arrived. OnData may call Close to end a client that sends without a pause.
func (e *EventConn) Draining() bool { return e.c.shared.isDraining() }

// RemoteAddr returns where the connection comes from, as [Conn.RemoteAddr] does.
func (e *EventConn) RemoteAddr() net.Addr { return e.handle().RemoteAddr() }

// LocalAddr returns the address that the client connected to.
func (e *EventConn) LocalAddr() net.Addr { return e.handle().LocalAddr() }

// handle returns a handle for the connection, made when it is needed first.
func (e *EventConn) handle() *Conn {
	if e.h == nil {
		e.h = &Conn{c: e.c, gen: e.gen}
	}
	return e.h
}

// onData calls the program's function.
func (s *Server) onData(e *EventConn, data []byte) int {
	used := s.OnData(e, data)
	if used < 0 || used > len(data) {
		panic(fmt.Sprintf("OnData returned %d, and had %d bytes", used, len(data)))
	}
	return used
}

// onEnd calls the program's function, which may panic too.
func (s *Server) onEnd(e *EventConn, err error) {
	if s.OnEnd == nil {
		return
	}
	defer s.caught(e.RemoteAddr)
	s.OnEnd(e, err)
}

// caught is deferred around a function of the program's that is about a connection. It
// catches a panic there.
func (s *Server) caught(peer func() net.Addr) {
	if v := recover(); v != nil {
		s.panicked(peer(), v)
	}
}

// panicked counts and logs a panic of the program's.
func (s *Server) panicked(peer net.Addr, v any) {
	s.counts.panics.Add(1)
	s.log().Error("tcp: a handler panicked", slog.String("peer", peer.String()), slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
}

// limits are those of the connections that OnData serves.
func (s *Server) limits() *flow.Limits {
	return &flow.Limits{Held: cmp.Or(s.MaxHeld, DefaultMaxHeld), Unsent: cmp.Or(s.MaxUnsent, DefaultMaxUnsent)}
}

// A caller serves a connection by OnData on a goroutine of its own: with TLS, and on systems
// without loops.
type caller struct {
	s  *Server
	nc net.Conn
	h  *Conn // nc, or what is below its TLS
	e  EventConn
}

// Call and Send make it a flow.Driver.
func (k *caller) Call(data []byte) int { return k.s.onData(&k.e, data) }

// Send waits until all is sent.
func (k *caller) Send(b []byte, last bool) (int, error) {
	if k.nc == net.Conn(k.h) {
		return k.h.write(b, last)
	}
	return k.nc.Write(b)
}

// serveCalls serves a connection by calls of OnData, until it ends.
func (s *Server) serveCalls(nc net.Conn, h *Conn) {
	k := &caller{s: s, nc: nc, h: h}
	k.e.d, k.e.c, k.e.h, k.e.max = k, h.c, h, s.limits()
	err := ErrPanicked
	defer func() {
		k.e.flow.Close()
		s.onEnd(&k.e, err)
	}()
	err = k.serve()
}

func (k *caller) serve() error {
	f := &k.e.flow
	next, err := k.turn(nil)
	for err == nil && next != flow.Over {
		switch {
		case next == flow.Again:
			next, err = k.turn(f.Held())
		case f.Holds():
			var n int
			if n, err = k.read(f.Room(), false); err == nil {
				f.Received(n)
				next, err = k.turn(f.Held())
			}
		default:
			next, err = k.turnReceived()
		}
	}
	return err
}

func (k *caller) turn(data []byte) (flow.Next, error) {
	b := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(b)
	scratch := b[:0]
	return k.e.flow.Turn(data, &scratch, k, *k.e.max)
}

// turnReceived waits for bytes, and has the handler use them. An idle connection has no
// buffer, except with TLS, and ends when the server does.
func (k *caller) turnReceived() (flow.Next, error) {
	isTLS := k.nc != net.Conn(k.h)
	if !isTLS {
		if err := k.h.WaitReadable(); err != nil {
			return flow.Over, err
		}
	}
	b := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(b)
	n, err := k.read(b[:], isTLS)
	if errors.Is(err, os.ErrDeadlineExceeded) && k.e.Draining() { // TLS holds no request
		if err = k.h.WaitReadable(); err == nil {
			n, err = k.read(b[:], false)
		}
	}
	if err != nil {
		return flow.Over, err
	}
	return k.turn(b[:n])
}

// read reads, and notes the end of what the client sends. If it is idle, it does not wait
// once the server ends.
func (k *caller) read(b []byte, idle bool) (int, error) {
	c := k.h.c
	c.idle.Store(idle)
	drains := idle && k.e.Draining() // a nudge came before idle was stored
	if drains {
		_ = k.h.SetReadDeadline(time.Unix(1, 0))
	}
	n, err := k.nc.Read(b)
	c.idle.Store(false)
	c.sysUnnudge()
	if drains {
		_ = k.h.SetReadDeadline(time.Time{})
	}
	if n == 0 && err == io.EOF {
		k.e.flow.End()
	}
	if n > 0 || err == io.EOF {
		err = nil
	}
	return n, err
}
