package mux

import (
	"errors"
	"fmt"
	"io"
)

// Errors of a connection.
var (
	// ErrConnectionLost says that the connection is gone, and there is no
	// other. The requests under way may have been carried out or not.
	ErrConnectionLost = errors.New("connection lost")

	// ErrStalled says that the server has not moved for too long: see
	// [Config].
	ErrStalled = errors.New("server does not answer")

	// ErrProtocol says that the server does not keep to the protocol.
	ErrProtocol = errors.New("SFTP protocol violated by the server")

	// ErrClosed says that the Client was closed.
	ErrClosed = errors.New("SFTP client closed")
)

// lost is the error of a stream that has ended.
func lost(op string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrConnectionLost, op, noEOF(err))
}

// noEOF returns an error that is no io.EOF: an end of the connection must not be
// taken for that of a file.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Violation marks what is wrong with a packet.
func Violation(err error) error {
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return err
}

// ErrLaneLost says that a call was on a lane which has ended, or had to go to
// one. Another lane may carry it.
var ErrLaneLost = errors.New("session ended")

// Plain is an error as callers see it: they know of no lanes.
func Plain(err error) error {
	if errors.Is(err, ErrLaneLost) && !errors.Is(err, ErrConnectionLost) && !errors.Is(err, ErrClosed) {
		return fmt.Errorf("%w: %w", ErrConnectionLost, err)
	}
	return err
}

// MaxTries is how many lanes in a row may be lost under one request before
// that fails.
const MaxTries = 3

// maxViolations is how often the server may break the protocol under one file,
// or under one request, and is asked again: a connection may be to blame that
// others have written to. A server that does so twice will do so a third time.
const maxViolations = 1

// askAgain reports whether a request is made once more that so many lanes ended
// under, the last one for err.
func askAgain(err error, tries int) bool {
	return tries < MaxTries && (tries <= maxViolations || !errors.Is(err, ErrProtocol))
}
