package mux

import (
	"errors"
	"fmt"
	"io"
)

// Errors that a connection can have.
var (
	// ErrConnectionLost means that the connection was lost and no other one is left. The server may
	// or may not have executed the requests in flight.
	ErrConnectionLost = errors.New("connection lost")

	// ErrStalled means that the server was silent for too long: see [Config].
	ErrStalled = errors.New("server does not answer")

	// ErrProtocol means that the server violates the protocol.
	ErrProtocol = errors.New("SFTP protocol violated by the server")

	// ErrClosed means that the client was closed.
	ErrClosed = errors.New("SFTP client closed")
)

// lost returns the error of a stream on which the operation op failed with err.
func lost(op string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrConnectionLost, op, noEOF(err))
}

// noEOF replaces io.EOF: callers must not mistake the end of a connection for the end of a file.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Violation wraps the error of an invalid packet in an ErrProtocol. It returns nil if err is nil.
func Violation(err error) error {
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return err
}

// ErrSessionLost is the error of a request whose session has ended. Another session may repeat the
// request.
var ErrSessionLost = errors.New("session ended")

// Plain converts an error for callers of the client, who know nothing of sessions: it turns an
// ErrSessionLost into an ErrConnectionLost.
func Plain(err error) error {
	if errors.Is(err, ErrSessionLost) && !errors.Is(err, ErrConnectionLost) && !errors.Is(err, ErrClosed) {
		return fmt.Errorf("%w: %w", ErrConnectionLost, err)
	}
	return err
}

// MaxTries is how many times a request is sent, if each time its session ends before the answer
// arrives. After that the request fails.
const MaxTries = 3

// maxViolations is how many protocol violations a file or a request survives. One violation may be
// the fault of a single connection, so the request is repeated. A server that violates the protocol
// twice would probably do so a third time.
const maxViolations = 1

// askAgain reports whether to repeat a request. The argument tries is the number of sessions that
// have ended while they carried the request, and err is the error of the last one.
func askAgain(err error, tries int) bool {
	return tries < MaxTries && (tries <= maxViolations || !errors.Is(err, ErrProtocol))
}

// A Failure is the error of a transfer that stopped before all bytes were moved.
type Failure struct {
	Offset int64 // all bytes before this offset have been moved
	Local  bool  // the error comes from this side: from a reader, a writer or a context of the caller
	Err    error
}

// Error returns the text of Err.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns Err.
func (f *Failure) Unwrap() error { return f.Err }

// asFailure wraps err in a Failure. It returns nil if err is nil.
func asFailure(offset int64, local bool, err error) error {
	if err == nil {
		return nil
	}
	return &Failure{offset, local, err}
}
