package admission

import (
	"errors"
	"slices"
	"syscall"
)

// IsTemporary reports whether accepting may succeed later, when there are descriptors or
// memory again.
func IsTemporary(err error) bool {
	return isAny(err, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM)
}

// IsOfPeer reports whether accepting failed because a connection ended before it was
// accepted, or because a firewall keeps it out.
func IsOfPeer(err error) bool { return isAny(err, ofPeer...) }

// isAny reports whether an error is one of some of the system's.
func isAny(err error, of ...syscall.Errno) bool {
	return slices.ContainsFunc(of, func(e syscall.Errno) bool { return errors.Is(err, e) })
}
