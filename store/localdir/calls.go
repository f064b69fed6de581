package localdir

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/internal/rules"
)

// calls makes the system calls of a store, and converts their errors to the errors that package
// store documents.
type calls struct {
	escape error // the error that os.Root returns for names that lead out of it

	// before, if set, is called before each system call that changes something or opens a file for
	// reading, with the name of that call. If it returns an error, the system call is not made.
	// Only tests set it.
	before func(call string) error
}

// call makes a system call, unless c.before returns an error.
func (c *calls) call(name string, f func() error) error {
	if err := c.hook(name); err != nil {
		return err
	}
	return f()
}

// hook calls c.before, if a test has set it.
func (c *calls) hook(call string) error {
	if c.before == nil {
		return nil
	}
	return c.before(call)
}

// fail returns err as an error of operation op on name. It removes the os package's wrapping,
// because the path in it must not be shown to the caller.
func (c *calls) fail(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: c.classify(reason(err))}
}

// reason returns the error that the os package wrapped, or err itself.
func reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	if le, ok := errors.AsType[*os.LinkError](err); ok {
		return le.Err
	}
	if se, ok := errors.AsType[*os.SyscallError](err); ok {
		return se.Err
	}
	return err
}

// classify adds to err the kind of error, such as fs.ErrPermission, that package store documents
// for it.
func (c *calls) classify(err error) error {
	switch {
	case c.escape != nil && errors.Is(err, c.escape):
		return rules.ErrOutside
	case isNoSpace(err):
		return rules.WithKind(err, store.ErrNoSpace)
	case errors.Is(err, syscall.EROFS):
		return rules.WithKind(err, fs.ErrPermission)
	case errors.Is(err, syscall.ENOTDIR): // the name is "a/b", and a is a file
		return rules.WithKind(err, fs.ErrNotExist)
	case isBadName(err):
		return rules.WithKind(err, fs.ErrInvalid)
	}
	return err
}

// failLink is like fail, but for operations with two names.
func (c *calls) failLink(op, from, to string, err error) error {
	return &os.LinkError{Op: op, Old: from, New: to, Err: c.classify(reason(err))}
}
