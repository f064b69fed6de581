package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// A StatusError is a STATUS by which a server refused a request. To errors.Is
// it is fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrInvalid,
// errors.ErrUnsupported or one of package store's errors, where the code, or
// the words of a haul server, say so. OpenSSH's server says no more than
// "Failure" of most.
type StatusError struct {
	Code    uint32 // SSH_FX_...; see draft-ietf-secsh-filexfer-02, section 7, and -13, section 9.1
	Message string // the server's own words, as they came

	kind error // nil if the code says nothing
}

// refused makes a *StatusError of a server's refusal, and leaves other errors as they
// are.
func refused(err error) error {
	if s, ok := errors.AsType[*wire.StatusError](err); ok {
		return &StatusError{Code: uint32(s.Status), Message: s.Message, kind: storewire.KindOf(s)}
	}
	return err
}

// Error says how the server refused. Its words are cut, and what could hurt a
// terminal or a log is replaced.
func (e *StatusError) Error() string {
	return (&wire.StatusError{Status: wire.Status(e.Code), Message: e.Message}).Error()
}

// Is reports whether the server's refusal is of the kind of target.
func (e *StatusError) Is(target error) bool { return e.kind != nil && errors.Is(e.kind, target) }

// IsRemote reports whether an error is of the server's side: the server refused a
// request, or lacks what it takes, or the connection is lost. Other errors are of
// this side, such as that of a reader or a writer of the caller's. The end of a
// context is of neither.
//
// All errors of a Client and of what it opens are marked, so after a copy this says
// which end has failed.
func IsRemote(err error) bool {
	_, remote := errors.AsType[remoteError](err)
	moved, ok := errors.AsType[*TransferError](err)
	return remote || ok && !moved.Local
}

// A remoteError marks an error as one of the server's side.
type remoteError struct{ error }

func (e remoteError) Unwrap() error { return e.error }

// onServer marks an error as the server's, unless it is known for this side's.
func onServer(err error) error {
	moved, ok := errors.AsType[*TransferError](err)
	if ok && moved.Local || errors.Is(err, context.Canceled) {
		return err
	}
	return remoteError{err}
}

// pathError says what was attempted on which file of the server.
func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: onServer(err)}
}

// linkError is a pathError for two names.
func linkError(op, from, to string, err error) error {
	return &os.LinkError{Op: op, Old: from, New: to, Err: onServer(err)}
}

// A TransferError says where a transfer came to its end too early.
type TransferError struct {
	Op     string // "read" or "write"
	Name   string // of the file on the server
	Offset int64  // up to here, all that was asked for has moved
	Local  bool   // the error is of this side: of the reader or the writer given, or of the context
	Err    error
}

// Error says what was attempted, on which file, how far it came and why not
// further.
func (e *TransferError) Error() string {
	where := "server: "
	switch {
	case e.Local:
		where = "local side: "
	case isStatus(e.Err):
		where = "" // it says so itself
	}
	return fmt.Sprintf("%s %s: at byte %d: %s%v", e.Op, e.Name, e.Offset, where, e.Err)
}

// Unwrap returns the reason.
func (e *TransferError) Unwrap() error { return e.Err }

// isFailure reports whether a server refused without saying why.
func isFailure(err error) bool {
	s, ok := errors.AsType[*StatusError](err)
	return ok && s.Code == uint32(wire.Failure)
}

// exists says of a failure what the client has found out.
func exists(err error) error {
	if errors.Is(err, fs.ErrExist) {
		return err
	}
	return fmt.Errorf("%w: %w", fs.ErrExist, err)
}

// isStatus reports whether an error is the server's refusal.
func isStatus(err error) bool {
	_, ok := errors.AsType[*StatusError](err)
	return ok
}

// fail says what was attempted on which file, once.
func fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return pathError(op, name, err)
}

func failLink(op, from, to string, err error) error {
	if err == nil {
		return nil
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		err = l.Err
	}
	return linkError(op, from, to, err)
}
