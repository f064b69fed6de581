package tcp

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/haul-project/haul/tcp/internal/admission"
	"github.com/haul-project/haul/tcp/internal/conns"
	"github.com/haul-project/haul/tcp/internal/proxy"
)

var (
	// ErrDraining says that the server is ending and the client has sent no further request.
	ErrDraining = conns.ErrDraining

	// ErrCut says that connections were closed because their handlers had not returned within
	// [Server.Grace], or because Halt was called.
	ErrCut = conns.ErrCut

	// ErrDenied says that [Server.Allow] or Deny refuses an address.
	ErrDenied = admission.ErrDenied

	// ErrSourceFull says that a source already has [Server.MaxConnsPerSource] connections.
	ErrSourceFull = admission.ErrSourceFull

	// ErrFull says that there already are [Server.MaxConns] connections.
	ErrFull = admission.ErrFull

	// ErrIdle says that no byte was received or sent for [Server.IdleTimeout].
	ErrIdle = conns.ErrIdle

	// ErrSilent says that the client has sent nothing for [Server.FirstByteTimeout].
	ErrSilent = conns.ErrSilent

	// ErrHandshake says that the client has not completed the TLS handshake, or the PROXY header,
	// within [Server.HandshakeTimeout].
	ErrHandshake = conns.ErrHandshake

	// ErrProxyHeader says that a connection from one of [Server.Proxies] began without a
	// valid PROXY header.
	ErrProxyHeader = proxy.ErrHeader

	// ErrNoProxyHeader says that a connection from one of [Server.Proxies] began with something
	// other than a PROXY header: the proxy is not configured to send one. It also matches
	// ErrProxyHeader.
	ErrNoProxyHeader = proxy.ErrNone
)

// A CongestionError says that the system refused the name in [Options.Congestion].
type CongestionError struct {
	Name string   // the name in Options.Congestion
	Has  []string // the available names; empty if unknown
	Err  error    // the system's error; it matches fs.ErrNotExist, fs.ErrPermission or errors.ErrUnsupported
}

// maxCongestion is the length of the longest name of a congestion control, in bytes: Linux's
// TCP_CA_NAME_MAX without the final NUL.
const maxCongestion = 15

// Error describes the error, and lists the names that may be chosen.
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

// Unwrap returns the system's error.
func (e *CongestionError) Unwrap() error { return e.Err }
