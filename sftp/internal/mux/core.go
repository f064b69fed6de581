package mux

import (
	"context"
	"sync"
	"time"
)

// A core is what all parts of a mux share.
type core struct {
	config Config
	ctx    context.Context // ends with the mux
	stop   context.CancelCauseFunc
	work   sync.WaitGroup // the goroutines of the mux

	// mu guards the state of all parts: the package comment has the rule.
	mu          sync.Mutex
	last        error  // why a session failed last
	err         error  // why the mux can do no more
	firstHandle string // the handle that the server gives out first; "" if not known
}

// A Config says what a mux may use. Its fields are those of the client's Config with the
// defaults filled in, and two functions.
type Config struct {
	Conns, Sessions, Memory int
	Requests, RequestBytes  int
	First                   string
	Trip                    time.Duration
	Expect                  int64
	Timeout, Stall          time.Duration
	NoReadAhead             bool

	// Connect makes a further connection, which the mux closes. It is nil if there can be
	// no other.
	Connect func(context.Context) (Carrier, error)

	// Refused turns an error that may be a *wire.StatusError into the one that callers see.
	Refused func(error) error
}
