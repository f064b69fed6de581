// Package rules defines which names and listings all stores of this module refuse, in memory and in
// a directory, and the errors for them.
package rules

import (
	"errors"
	"fmt"
	"io/fs"
)

// The errors of refusals. ErrOutside is returned for every name that leads out of the root, so
// that the error does not reveal what exists there. ErrReserved refuses an upload to the name of
// another upload's temporary file.
var (
	ErrNotRegular = WithKind(errors.New("not a regular file"), fs.ErrPermission)
	ErrIsDir      = fmt.Errorf("%w but a directory", ErrNotRegular)
	ErrRoot       = fmt.Errorf("%w: it is the root", fs.ErrPermission)
	ErrOutside    = fmt.Errorf("%w: leads outside the root", fs.ErrPermission)
	ErrReserved   = fmt.Errorf("%w: name is reserved for uploads under way", fs.ErrPermission)
	ErrNotLink    = fmt.Errorf("%w: not a symbolic link", fs.ErrInvalid)
	ErrLinkAttr   = fmt.Errorf("%w: a symbolic link has neither size nor mode", errors.ErrUnsupported)
	ErrNotReading = fmt.Errorf("%w: not open for reading", fs.ErrPermission)
	ErrNotWriting = fmt.Errorf("%w: not open for writing", fs.ErrPermission)

	// ErrManyEntries refuses a listing of a directory with more than MaxEntries.
	ErrManyEntries = fmt.Errorf("more than %d entries in one directory: spread them over several", MaxEntries)

	errNotLocal = fmt.Errorf("%w: this system allows no such name", fs.ErrInvalid)
)

// WithKind returns err as an error that errors.Is also reports as kind, one of the few errors
// that a caller of package store distinguishes.
func WithKind(err, kind error) error { return kindError{err, kind} }

type kindError struct {
	error
	kind error
}

func (e kindError) Is(target error) bool { return target == e.kind }
func (e kindError) Unwrap() error        { return e.error }
