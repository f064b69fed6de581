package mux

import (
	"context"
	"sync"
	"time"
)

// A core holds the state that all parts of a mux share.
type core struct {
	config Config
	ctx    context.Context // ends with the mux
	stop   context.CancelCauseFunc
	work   sync.WaitGroup // the goroutines of the mux

	// mu guards the state of all parts. The package comment states the rule.
	mu          sync.Mutex
	last        error  // the error of the session that failed last
	err         error  // the error that ended the mux
	firstHandle string // the handle that the server returns first in a session; "" if not known
}

// A Config holds the settings of a mux. Its fields are those of the client's Config with the
// defaults filled in, and two functions.
type Config struct {
	Conns, Sessions, Memory int
	Requests, RequestBytes  int
	First                   string
	Trip                    time.Duration
	Expect                  int64
	Timeout, Stall          time.Duration
	NoReadAhead             bool

	// Connect opens a further connection, which the mux closes. It is nil if there can be only one
	// connection.
	Connect func(context.Context) (Carrier, error)

	// Refused converts an error that may be a *wire.StatusError into the error that callers get.
	Refused func(error) error
}
