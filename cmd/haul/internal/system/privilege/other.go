//go:build !linux

package privilege

import (
	"errors"
	"fmt"
	"runtime"
)

// LookUp fails, because this system is not supported.
func LookUp(spec string) (User, error) {
	return User{}, unsupported("become user " + spec)
}

// Drop fails, because this system is not supported.
func Drop(u User) error { return unsupported("become user " + u.Name) }

// Allowed returns the same error as Drop.
func Allowed(u User) error { return Drop(u) }

// DropCapabilities fails, because this system is not supported.
func DropCapabilities() error { return unsupported("drop capabilities") }

// Hide does nothing, because this system is not supported.
func Hide() error { return nil }

// Confine fails, because this system is not supported.
func Confine(Confinement) (string, error) { return "", unsupported("confine the process") }

func unsupported(what string) error {
	return fmt.Errorf("%s: not built for %s; start haul as a user with few rights instead: %w", what, runtime.GOOS, errors.ErrUnsupported)
}

// Beside returns nothing, because this system cannot confine a process.
func Beside(string, *User) ([]string, error) { return nil, nil }
