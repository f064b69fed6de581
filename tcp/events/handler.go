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

// OnEnd gets these errors. It also gets errors of package tcp: ErrDraining, ErrCut, and the errors
// of timeouts.
var (
	// ErrHeld says that OnData used none of the [Handler.MaxHeld] bytes that it got.
	ErrHeld = flow.ErrHeld

	// ErrUnsent says that OnData wrote more than [Handler.MaxUnsent] bytes that the client has not
	// read yet.
	ErrUnsent = flow.ErrUnsent

	// ErrPanicked says that OnData panicked. The panic is logged.
	ErrPanicked = errors.New("tcp: the handler panicked")
)

// A Handler is a Driver of a tcp.Server. Its fields must not change once the server serves.
type Handler struct {
	// OnData serves the connections; it must be set. data holds the bytes that were received and
	// not used yet. OnData returns how many of them it has used; the other bytes are the beginning
	// of the data of the next call. data is valid until OnData returns. If OnData has used some of
	// the bytes but not all, it is called again at once, so it may answer one request in each call.
	//
	// OnData is called first when the connection opens, without data, so that it can greet the
	// client. It is called last when the client has closed its sending half: see [Conn.Ended]. If
	// OnData panics, the panic is logged and counted, and only that connection ends.
	//
	// A loop calls OnData for all connections of its socket, one call at a time. Several loops call
	// it concurrently. A call that waits, or computes for long, delays all connections of its loop.
	OnData func(c *Conn, data []byte) (used int)

	// OnEnd, if set, is called once when a connection ends for which OnData was called. err is nil
	// if the client or Close ended the connection, and otherwise the reason. c is no longer valid
	// after OnEnd returns.
	OnEnd func(c *Conn, err error)

	// A connection ends with ErrHeld if OnData is called with MaxHeld bytes and uses none of them.
	// It ends with ErrUnsent if there are more than MaxUnsent written bytes that the client has not
	// read yet.
	MaxHeld   int // 0 means 64 KiB
	MaxUnsent int // 0 means 1 MiB
}

// Check returns an error if a setting is invalid. The server calls it.
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

// limits returns the bounds of each connection, with the defaults filled in.
func (h *Handler) limits() *flow.Limits {
	return &flow.Limits{Held: cmp.Or(h.MaxHeld, defaultMaxHeld), Unsent: cmp.Or(h.MaxUnsent, defaultMaxUnsent)}
}

// call calls OnData. It panics if OnData returns an impossible number.
func (h *Handler) call(e *Conn, data []byte) int {
	used := h.OnData(e, data)
	if used < 0 || used > len(data) {
		panic(fmt.Sprintf("OnData returned %d, and had %d bytes", used, len(data)))
	}
	return used
}

// end calls OnEnd if it is set, and catches its panic.
func (h *Handler) end(e *Conn, err error) {
	if h.OnEnd == nil {
		return
	}
	defer e.c.Group().Caught(e.RemoteAddr)
	h.OnEnd(e, err)
}
