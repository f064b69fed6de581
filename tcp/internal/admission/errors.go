package admission

import (
	"errors"
	"slices"
	"syscall"
)

// IsTemporary reports whether accepting may succeed later, when descriptors or memory are available
// again.
func IsTemporary(err error) bool {
	return isAny(err, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM)
}

// IsOfPeer reports whether accepting failed because a connection ended before it was
// accepted, or because a firewall keeps it out.
func IsOfPeer(err error) bool { return isAny(err, ofPeer...) }

// isAny reports whether err is one of the given errors of the system.
func isAny(err error, of ...syscall.Errno) bool {
	return slices.ContainsFunc(of, func(e syscall.Errno) bool { return errors.Is(err, e) })
}
