// Package rules defines which names and which listings all stores of this module refuse, in memory
// and in a directory, and with which errors.
package rules

import (
	"errors"
	"fmt"
	"io/fs"
)

// These errors are reasons for refusals. ErrOutside is the error for every name that leads out of
// the root, so that it does not reveal what exists outside. ErrReserved refuses an upload to a name
// that belongs to the temporary file of another upload.
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

	// ErrManyEntries is the error for listing a directory with more than MaxEntries entries.
	ErrManyEntries = fmt.Errorf("more than %d entries in one directory: spread them over several", MaxEntries)

	errNotLocal = fmt.Errorf("%w: this system allows no such name", fs.ErrInvalid)
)

// WithKind returns err with an additional kind, for which errors.Is reports true as well. `kind` is
// one of the few errors that callers of package store distinguish.
func WithKind(err, kind error) error { return kindError{err, kind} }

type kindError struct {
	error
	kind error
}

func (e kindError) Is(target error) bool { return target == e.kind }
func (e kindError) Unwrap() error        { return e.error }
