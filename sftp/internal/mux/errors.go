package mux

import (
	"errors"
	"fmt"
	"io"
)

// Errors of a connection.
var (
	// ErrConnectionLost means that the connection is gone and there is no other. The
	// server may have carried out the requests under way, or not.
	ErrConnectionLost = errors.New("connection lost")

	// ErrStalled means that the server was silent for too long: see [Config].
	ErrStalled = errors.New("server does not answer")

	// ErrProtocol means that the server violates the protocol.
	ErrProtocol = errors.New("SFTP protocol violated by the server")

	// ErrClosed means that the client was closed.
	ErrClosed = errors.New("SFTP client closed")
)

// lost returns the error of a stream that has ended.
func lost(op string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrConnectionLost, op, noEOF(err))
}

// noEOF replaces io.EOF: callers must not take the end of a connection for the end of a file.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Violation makes an ErrProtocol of what is wrong with a packet.
func Violation(err error) error {
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return err
}

// ErrSessionLost is the error of a request whose session has ended, or that had to go to
// one that has. Another session may carry it.
var ErrSessionLost = errors.New("session ended")

// Plain returns an error as callers of the client see it, who know of no sessions.
func Plain(err error) error {
	if errors.Is(err, ErrSessionLost) && !errors.Is(err, ErrConnectionLost) && !errors.Is(err, ErrClosed) {
		return fmt.Errorf("%w: %w", ErrConnectionLost, err)
	}
	return err
}

// MaxTries is how many sessions in a row may be lost under one request before it fails.
const MaxTries = 3

// maxViolations is how often the server may break the protocol under one file, or under one
// request, that is asked again: it may be the fault of one connection. A server that does so
// twice will do so a third time.
const maxViolations = 1

// askAgain reports whether to make a request once more. tries is how many sessions have
// ended under it, and err why the last one did.
func askAgain(err error, tries int) bool {
	return tries < MaxTries && (tries <= maxViolations || !errors.Is(err, ErrProtocol))
}

// A Failure is why a transfer has ended early.
type Failure struct {
	Offset int64 // all before it has moved
	Local  bool  // the error is of this side: a reader, a writer or a context of the caller
	Err    error
}

// Error returns the text of the reason.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the reason.
func (f *Failure) Unwrap() error { return f.Err }

// asFailure makes a Failure of an error, or returns nil.
func asFailure(offset int64, local bool, err error) error {
	if err == nil {
		return nil
	}
	return &Failure{offset, local, err}
}
