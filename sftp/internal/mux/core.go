package mux

import (
	"context"
	"sync"
	"time"
)

// A core holds the state that all parts of a mux share.
type core struct {
	config Config
	ctx    context.Context // ends when the mux is closed or fails
	stop   context.CancelCauseFunc
	work   sync.WaitGroup // waits for all goroutines of the mux

	// mu guards the state of all parts, as the package comment explains.
	mu          sync.Mutex
	last        error  // the error of the session that failed most recently
	err         error  // the error that ended the mux; nil while the mux works
	firstHandle string // the handle that the server returns first in each session; "" if unknown
}

// A Config holds the settings of a mux: the fields of the client's Config, with the defaults filled
// in, and two functions.
type Config struct {
	Conns, Sessions, Memory int
	Requests, RequestBytes  int
	First                   string
	Trip                    time.Duration
	Expect                  int64
	Timeout, Stall          time.Duration
	NoReadAhead             bool

	// Connect opens a further connection, which the mux owns and closes. Connect is nil if there
	// can be only one connection.
	Connect func(context.Context) (Carrier, error)

	// Refused converts an error that may be a *wire.StatusError into the error that callers
	// receive.
	Refused func(error) error
}
