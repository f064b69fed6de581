package events

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/haul-project/haul/tcp/internal/conns"
	"github.com/haul-project/haul/tcp/internal/drive"
	"github.com/haul-project/haul/tcp/internal/flow"
)

// bufferSize is how many bytes are received at a time, and how many written bytes a turn collects
// before it sends them.
const bufferSize = 64 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// A caller calls OnData for one connection, on the connection's own goroutine. It is used with TLS,
// and on systems without loops.
type caller struct {
	handler *Handler
	nc      net.Conn
	h       drive.Handle // equal to nc, or with TLS the connection that nc uses
	e       Conn
}

// Call and Send implement flow.Driver for the connection.
func (k *caller) Call(data []byte) int { return k.handler.call(&k.e, data) }

// Send waits until all bytes are sent.
func (k *caller) Send(b []byte, last bool) (int, error) { return k.nc.Write(b) }

// Serve serves a connection by calling OnData until the connection ends. The server calls Serve.
func (h *Handler) Serve(nc net.Conn, handle drive.Handle, c *conns.Conn) {
	k := &caller{handler: h, nc: nc, h: handle}
	k.e.d, k.e.c, k.e.h, k.e.max = k, c, handle, h.limits()
	err := ErrPanicked
	defer func() {
		k.e.flow.Close()
		h.end(&k.e, err)
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
	b := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(b)
	scratch := b[:0]
	return k.e.flow.Turn(data, &scratch, k, *k.e.max)
}

// turnReceived waits for bytes, and lets the handler use them. An idle connection has no buffer,
// except with TLS. When the server begins to end, an idle connection is closed.
func (k *caller) turnReceived() (flow.Next, error) {
	isTLS := k.nc != net.Conn(k.h)
	if !isTLS {
		if err := k.h.WaitReadable(); err != nil {
			return flow.Over, err
		}
	}
	b := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(b)
	n, err := k.read(b[:], isTLS)
	// This error occurs only with TLS: the server has begun to end, and the read deadline was moved
	// into the past to end the wait. TLS holds no part of a request, so WaitReadable may be called.
	if errors.Is(err, os.ErrDeadlineExceeded) && k.e.Draining() {
		if err = k.h.WaitReadable(); err == nil {
			n, err = k.read(b[:], false)
		}
	}
	if err != nil {
		return flow.Over, err
	}
	return k.turn(b[:n])
}

// read reads, and records when the client has closed its sending half. If idle is set, read stops
// waiting when the server begins to end.
func (k *caller) read(b []byte, idle bool) (int, error) {
	c := k.e.c
	c.SetIdle(idle)
	// If the server began to end before the call of SetIdle, it does not interrupt this read. So set
	// a read deadline that has passed: the read then returns at once.
	drains := idle && k.e.Draining()
	if drains {
		_ = k.h.SetReadDeadline(time.Unix(1, 0))
	}
	n, err := k.nc.Read(b)
	c.NotIdle()
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
