//go:build !linux

package openssh

import (
	"errors"
	"syscall"
)

// control sets what a socket needs before it connects.
func (d *Dialer) control(_, _ string, _ syscall.RawConn) error {
	if d.Congestion != "" {
		return configErrorf("congestion control %q: %w", d.Congestion, errors.ErrUnsupported)
	}
	return nil
}
