package remote

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/web/webclient"
)

// IsNoAnswer reports whether a server cannot be reached, or the connection was lost.
func IsNoAnswer(err error) bool {
	_, lookup := errors.AsType[*net.DNSError](err)
	if lookup {
		return true
	}
	for _, e := range []error{
		transfer.ErrSilent, sftpclient.ErrConnectionLost, sftpclient.ErrStalled, webclient.ErrLost, os.ErrDeadlineExceeded, context.DeadlineExceeded,
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ETIMEDOUT,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && strings.HasPrefix(op.Net, "tcp")
}
