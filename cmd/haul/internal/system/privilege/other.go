//go:build !linux

package privilege

import (
	"errors"
	"fmt"
	"runtime"
)

// LookUp would find a user to become.
func LookUp(spec string) (User, error) {
	return User{}, unsupported("become user " + spec)
}

// Drop would become another user.
func Drop(u User) error { return unsupported("become user " + u.Name) }

// Allowed would say whether Drop is.
func Allowed(u User) error { return Drop(u) }

// DropCapabilities would give up capabilities.
func DropCapabilities() error { return unsupported("drop capabilities") }

// Hide does nothing.
func Hide() error { return nil }

// Confine would restrict the process to the files it needs.
func Confine(Confinement) (string, error) { return "", unsupported("confine the process") }

func unsupported(what string) error {
	return fmt.Errorf("%s: not built for %s; start haul as a user with few rights instead: %w", what, runtime.GOOS, errors.ErrUnsupported)
}
