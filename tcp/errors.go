package tcp

import (
	"errors"
	"net"
	"os"
)

var (
	// ErrDraining says that the server ends, and the client has asked for nothing
	// more.
	ErrDraining = errors.New("tcp: the server ends")

	// ErrCut says that connections were ended because the time for their handlers
	// was up, or by Halt.
	ErrCut = errors.New("tcp: the server has ended, and cut the connection")

	// ErrIdle says that nothing was moved for [Server.IdleTimeout].
	ErrIdle error = timeUp("tcp: the connection was idle for too long")

	// ErrSilent says that the client has not spoken for [Server.FirstByteTimeout].
	ErrSilent error = timeUp("tcp: the client has not said anything")

	// ErrHandshake says that the client has not come to the end of the TLS
	// handshake, or of the PROXY header, in [Server.HandshakeTimeout].
	ErrHandshake error = timeUp("tcp: the handshake has taken too long")
)

// A timeUp is an error about time: a net.Error with Timeout, and to errors.Is an
// os.ErrDeadlineExceeded.
type timeUp string

func (e timeUp) Error() string { return string(e) }

func (e timeUp) Timeout() bool { return true }

func (e timeUp) Temporary() bool { return true }

func (e timeUp) Is(target error) bool { return target == os.ErrDeadlineExceeded }

// unnamed takes the operation and the address off an error of package net that will
// name them.
func unnamed(err error) error {
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e.Err
	}
	return err
}
