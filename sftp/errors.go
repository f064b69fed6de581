package sftp

import (
	"errors"
	"fmt"
)

// ErrAbandoned is why a transfer ended that the client did not end: its channel
// closed, or the connection was gone. A hidden upload is discarded then.
var ErrAbandoned = errors.New("sftp: the client left it open")

// ErrEnded is why a transfer ended that the server cut off, as it ended
// the connection. The error wrapped beside it says why. A hidden upload is
// discarded then, too.
var ErrEnded = errors.New("sftp: ended by the server")

// errEnding is why connections end when their server does.
var errEnding = errors.New("the server ends")

// errOurs marks what is no fault of the peer.
var errOurs = errors.New("refused by the server's configuration")

// errAnswered says that a request has been answered otherwise than by a STATUS.
var errAnswered = errors.New("answered")

// A panicError is what was recovered of a panic.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// Unwrap returns the value if that is an error.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}
