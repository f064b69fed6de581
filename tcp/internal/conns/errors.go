package conns

import (
	"errors"
	"net"
	"os"
)

// The reasons for which a server ends a connection. Package tcp documents them.
var (
	ErrDraining = errors.New("tcp: the server ends")
	ErrCut      = errors.New("tcp: the server has ended, and cut the connection")

	ErrIdle      error = timeUp("tcp: the connection was idle for too long")
	ErrSilent    error = timeUp("tcp: the client has not said anything")
	ErrHandshake error = timeUp("tcp: the handshake has taken too long")
)

// A timeUp is a timeout error: it implements net.Error, and errors.Is matches it with
// os.ErrDeadlineExceeded.
type timeUp string

func (e timeUp) Error() string        { return string(e) }
func (e timeUp) Timeout() bool        { return true }
func (e timeUp) Temporary() bool      { return true }
func (e timeUp) Is(target error) bool { return target == os.ErrDeadlineExceeded }

// Unnamed strips the operation and the address from an error of package net, because the caller
// adds its own.
func Unnamed(err error) error {
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e.Err
	}
	return err
}
