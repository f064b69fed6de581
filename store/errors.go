package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

var (
	// ErrWouldBlock says that the bytes at that offset are not in memory.
	ErrWouldBlock = errors.New("read would wait for the disk")

	// ErrNotRegular says that a name is a directory, a pipe, a device or
	// the like. It is also an [fs.ErrPermission].
	ErrNotRegular error = kindError{errors.New("not a regular file"), fs.ErrPermission}

	// ErrNoSpace says that the store has no room: the disk or the quota is
	// full, or a [Mem] or [Sink] is at its limit. A file that is larger than the
	// file system or the process may have them is another error, as there may
	// be room for others.
	ErrNoSpace = errors.New("no space left in the store")
)

// A kindError is an error of the operating system that is also, to errors.Is,
// one of the few that a caller of this package distinguishes.
type kindError struct {
	error
	kind error
}

func (e kindError) Is(target error) bool { return target == e.kind }
func (e kindError) Unwrap() error        { return e.error }

// errOutside answers every name that leads out of the root, so that the answer
// does not reveal what exists there.
var errOutside = fmt.Errorf("%w: leads outside the root", fs.ErrPermission)

var (
	errRoot       = fmt.Errorf("%w: it is the root", fs.ErrPermission)
	errIsDir      = fmt.Errorf("%w but a directory", ErrNotRegular)
	errNotLink    = fmt.Errorf("%w: not a symbolic link", fs.ErrInvalid)
	errNotReading = fmt.Errorf("%w: not open for reading", fs.ErrPermission)
	errNotWriting = fmt.Errorf("%w: not open for writing", fs.ErrPermission)
	errLinkAttr   = fmt.Errorf("%w: a symbolic link has neither size nor mode", errors.ErrUnsupported)
)

// reason returns what the os package wrapped.
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

// errReserved answers an upload to the name of another one's hidden file.
var errReserved = fmt.Errorf("%w: name is reserved for uploads under way", fs.ErrPermission)

// errNotLocal says that a name of other systems is none here.
var errNotLocal = fmt.Errorf("%w: this system allows no such name", fs.ErrInvalid)
