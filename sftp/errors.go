package sftp

import (
	"errors"
	"fmt"
)

// ErrAbandoned is the error of a transfer whose file the client did not close: the client closed
// the channel, or the connection was lost. A hidden upload is discarded.
var ErrAbandoned = errors.New("sftp: the client left it open")

// ErrEnded is the error of a transfer that was cut off because the server closed the connection.
// The transfer's error also wraps the reason for closing. A hidden upload is discarded.
var ErrEnded = errors.New("sftp: ended by the server")

// Reasons for which the server closes a connection.
var (
	errLoginGrace = errors.New("the login took too long")
	errIdle       = errors.New("idle for too long")
	errBroken     = errors.New("the client broke the protocol, and sent more")
)

// errLeft is the cause with which a connection's context is cancelled after the client has left.
var errLeft = errors.New("the client left")

// errEnding is the reason for closing a connection because the server shuts down.
var errEnding = errors.New("the server ends")

// errOurs marks errors that come from the server's configuration, and are not the peer's fault.
var errOurs = errors.New("refused by the server's configuration")

// errAnswered means that the reply has been appended already. The session must not append a STATUS
// after it.
var errAnswered = errors.New("answered")

// A panicError is the error of a connection on which the server or a hook has panicked.
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
