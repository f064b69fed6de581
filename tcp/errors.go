package tcp

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/haul-project/haul/tcp/internal/proxy"
)

var (
	// ErrDraining says that the server ends, and the client has sent nothing more.
	ErrDraining = errors.New("tcp: the server ends")

	// ErrCut says that connections were ended because their handlers exceeded the Grace,
	// or by Halt.
	ErrCut = errors.New("tcp: the server has ended, and cut the connection")

	// ErrDenied says that [Server.Allow] or Deny refuses an address.
	ErrDenied = errors.New("tcp: the address is not allowed")

	// ErrSourceFull says that a source has [Server.MaxConnsPerSource] connections.
	ErrSourceFull = errors.New("tcp: the source has as many connections as it may")

	// ErrFull says that there are [Server.MaxConns] connections.
	ErrFull = errors.New("tcp: there are as many connections as there may be")

	// ErrIdle says that nothing was moved for [Server.IdleTimeout].
	ErrIdle error = timeUp("tcp: the connection was idle for too long")

	// ErrSilent says that the client has not spoken for [Server.FirstByteTimeout].
	ErrSilent error = timeUp("tcp: the client has not said anything")

	// ErrHandshake says that the client has not completed the TLS handshake, or the PROXY
	// header, in [Server.HandshakeTimeout].
	ErrHandshake error = timeUp("tcp: the handshake has taken too long")

	// ErrProxyHeader says that a connection from one of [Server.Proxies] began without a
	// valid PROXY header.
	ErrProxyHeader = proxy.ErrHeader

	// ErrNoProxyHeader says that it began with something else: the proxy is not set up to
	// send a header. It is an ErrProxyHeader, too.
	ErrNoProxyHeader = proxy.ErrNone
)

// A CongestionError says that the system refuses [Options.Congestion].
type CongestionError struct {
	Name string   // what was asked for
	Has  []string // what may be chosen; empty if that is not known
	Err  error    // the system's: fs.ErrNotExist, fs.ErrPermission or errors.ErrUnsupported
}

// Error lists what may be chosen.
func (e *CongestionError) Error() string {
	why := e.Err.Error()
	switch has := strings.Join(e.Has, ", "); {
	case has == "":
	case errors.Is(e.Err, fs.ErrNotExist):
		why = "the kernel does not have it; it has " + has
	case errors.Is(e.Err, fs.ErrPermission):
		why = "only root may choose it; all may choose " + has
	}
	return fmt.Sprintf("congestion control %q: %s", e.Name[:min(len(e.Name), maxCongestion)], why)
}

// Unwrap returns the error of the system.
func (e *CongestionError) Unwrap() error { return e.Err }

// A timeUp is a timeout: a net.Error with Timeout, and os.ErrDeadlineExceeded to errors.Is.
type timeUp string

func (e timeUp) Error() string        { return string(e) }
func (e timeUp) Timeout() bool        { return true }
func (e timeUp) Temporary() bool      { return true }
func (e timeUp) Is(target error) bool { return target == os.ErrDeadlineExceeded }

// unnamed strips the operation and the address from an error of package net, since the
// caller adds them.
func unnamed(err error) error {
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e.Err
	}
	return err
}

// isTemporary reports whether accepting may succeed later, when there are descriptors or
// memory again.
func isTemporary(err error) bool {
	return isAny(err, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM)
}

// isAny reports whether an error is one of some of the system's.
func isAny(err error, of ...syscall.Errno) bool {
	return slices.ContainsFunc(of, func(e syscall.Errno) bool { return errors.Is(err, e) })
}
