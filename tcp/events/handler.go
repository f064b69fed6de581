package events

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/haul-project/haul/tcp/internal/flow"
)

const (
	defaultMaxHeld   = 64 << 10
	defaultMaxUnsent = 1 << 20
)

// These errors are passed to OnEnd. So are errors of package tcp: ErrDraining, ErrCut and the
// errors of its timeouts.
var (
	// ErrHeld says that OnData used none of [Handler.MaxHeld] bytes.
	ErrHeld = flow.ErrHeld

	// ErrUnsent says that the bytes written by OnData and not yet read by the client exceed
	// [Handler.MaxUnsent].
	ErrUnsent = flow.ErrUnsent

	// ErrPanicked says that OnData panicked. The panic is logged.
	ErrPanicked = errors.New("tcp: the handler panicked")
)

// A Handler is a Driver of a tcp.Server. Its fields must not change once the server serves.
type Handler struct {
	// OnData serves the connections; it must be set. data holds the bytes that were received and
	// not used yet. OnData returns how many of them it has used; the others begin the data of the
	// next call. data is valid until OnData returns. If it used some bytes and others are left, it
	// is called again at once, so it may answer one request in each call.
	//
	// The first call is when the connection opens, without data, so that OnData can greet. The last
	// call is when the client has ended sending: see [Conn.Ended]. A panic is logged and counted,
	// and ends only that connection.
	//
	// A loop calls it for all connections of a socket, one call after the other. Calls of several
	// loops run concurrently. A call that waits, or computes for long, delays all connections of
	// its loop.
	OnData func(c *Conn, data []byte) (used int)

	// OnEnd, if set, is called once for each connection that OnData was called for, when the
	// connection ends. err is nil if the client or Close ended it, and otherwise the reason. c is
	// no longer valid after OnEnd returns.
	OnEnd func(c *Conn, err error)

	// A connection ends with ErrHeld if OnData uses none of MaxHeld bytes, and with ErrUnsent if
	// more than MaxUnsent written bytes wait for the client to read.
	MaxHeld   int // 0 means 64 KiB
	MaxUnsent int // 0 means 1 MiB
}

// Check returns an error for invalid settings. The server calls it.
func (h *Handler) Check() error {
	switch {
	case h.OnData == nil:
		return errors.New("tcp: the events.Handler has no OnData")
	case h.MaxHeld < 0:
		return errors.New("tcp: MaxHeld is negative")
	case h.MaxUnsent < 0:
		return errors.New("tcp: MaxUnsent is negative")
	}
	return nil
}

// limits returns the bounds of each connection.
func (h *Handler) limits() *flow.Limits {
	return &flow.Limits{Held: cmp.Or(h.MaxHeld, defaultMaxHeld), Unsent: cmp.Or(h.MaxUnsent, defaultMaxUnsent)}
}

// call calls OnData.
func (h *Handler) call(e *Conn, data []byte) int {
	used := h.OnData(e, data)
	if used < 0 || used > len(data) {
		panic(fmt.Sprintf("OnData returned %d, and had %d bytes", used, len(data)))
	}
	return used
}

// end calls OnEnd, which may panic too.
func (h *Handler) end(e *Conn, err error) {
	if h.OnEnd == nil {
		return
	}
	defer e.c.Group().Caught(e.RemoteAddr)
	h.OnEnd(e, err)
}
