package admission

import (
	"errors"
	"slices"
	"syscall"
)

// IsTemporary reports whether accepting failed for lack of descriptors or memory, so that it may
// succeed later.
func IsTemporary(err error) bool {
	return isAny(err, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM)
}

// IsOfPeer reports whether accepting failed because of one connection: it ended before it was
// accepted, or a firewall refuses it. The next connection may be accepted.
func IsOfPeer(err error) bool { return isAny(err, ofPeer...) }

// isAny reports whether err is one of the given system errors.
func isAny(err error, of ...syscall.Errno) bool {
	return slices.ContainsFunc(of, func(e syscall.Errno) bool { return errors.Is(err, e) })
}
