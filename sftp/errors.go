package sftp

import (
	"errors"
	"fmt"
)

// ErrAbandoned is the error of a transfer that the client did not end: it closed the channel, or
// the connection was lost. A hidden upload is discarded.
var ErrAbandoned = errors.New("sftp: the client left it open")

// ErrEnded is the error of a transfer that the server cut off when it ended the connection. The
// error wrapped beside it is the reason. A hidden upload is discarded.
var ErrEnded = errors.New("sftp: ended by the server")

// Reasons for which the server ends a connection.
var (
	errLoginGrace = errors.New("the login took too long")
	errIdle       = errors.New("idle for too long")
	errBroken     = errors.New("the client broke the protocol, and sent more")
)

// errLeft is the cause of a connection's context that ends after the client has left.
var errLeft = errors.New("the client left")

// errEnding is the reason of connections that end because their server shuts down.
var errEnding = errors.New("the server ends")

// errOurs marks errors that are not the peer's fault.
var errOurs = errors.New("refused by the server's configuration")

// errAnswered means that a request has been answered with a reply other than STATUS.
var errAnswered = errors.New("answered")

// A panicError is a recovered panic.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// Unwrap returns the panic's value if it is an error.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}
