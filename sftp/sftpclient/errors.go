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

// A StatusError is the error of a request that the server refused with a STATUS. errors.Is
// recognizes it as fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrInvalid,
// errors.ErrUnsupported or an error of package store, if the code, or the text of a haul server,
// identifies one. OpenSSH's server answers "Failure" to most refused requests.
type StatusError struct {
	Code    uint32 // SSH_FX_...; see draft-ietf-secsh-filexfer-02, section 7, and -13, section 9.1
	Message string // the server's text, unchanged

	kind error // error that errors.Is recognizes; nil if the refusal does not identify one
}

// refused converts a server's refusal into a *StatusError, and returns other errors unchanged.
func refused(err error) error {
	if s, ok := errors.AsType[*wire.StatusError](err); ok {
		return &StatusError{Code: uint32(s.Status), Message: s.Message, kind: storewire.KindOf(s)}
	}
	return err
}

// Error returns the server's text. It is truncated, and characters that could harm a terminal or a
// log are replaced.
func (e *StatusError) Error() string {
	return (&wire.StatusError{Status: wire.Status(e.Code), Message: e.Message}).Error()
}

// Is reports whether target describes the same kind of refusal.
func (e *StatusError) Is(target error) bool { return e.kind != nil && errors.Is(e.kind, target) }

// IsRemote reports whether the server's side caused an error: the server refused a request or lacks
// an extension, or the connection is lost. Other errors come from this side, for example from a
// reader or a writer of the caller. An error because a context has ended counts for neither side.
//
// All errors of a Client and of its files say which side caused them, so after a copy IsRemote
// shows which side has failed.
func IsRemote(err error) bool {
	_, remote := errors.AsType[remoteError](err)
	moved, ok := errors.AsType[*TransferError](err)
	return remote || ok && !moved.Local
}

// A remoteError marks an error of the server's side.
type remoteError struct{ error }

func (e remoteError) Unwrap() error { return e.error }

// onServer marks an error as an error of the server's side, unless it is known to come from this
// side.
func onServer(err error) error {
	moved, ok := errors.AsType[*TransferError](err)
	if ok && moved.Local || errors.Is(err, context.Canceled) {
		return err
	}
	return remoteError{err}
}

// pathError returns an error with the operation and the name of the file.
func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: onServer(err)}
}

// linkError is like pathError for an operation on two names.
func linkError(op, from, to string, err error) error {
	return &os.LinkError{Op: op, Old: from, New: to, Err: onServer(err)}
}

// A TransferError is the error of a transfer that ended early.
type TransferError struct {
	Op     string // "read" or "write"
	Name   string // the name of the file on the server
	Offset int64  // all bytes before this offset have been moved
	Local  bool   // the error comes from this side: from a reader or a writer of the caller, or from a context
	Err    error
}

// Error returns the operation, the file, the offset and the text of Err.
func (e *TransferError) Error() string {
	where := "server: "
	switch {
	case e.Local:
		where = "local side: "
	case isStatus(e.Err):
		where = "" // the text already names the server
	}
	return fmt.Sprintf("%s %s: at byte %d: %s%v", e.Op, e.Name, e.Offset, where, e.Err)
}

// Unwrap returns Err.
func (e *TransferError) Unwrap() error { return e.Err }

// isFailure reports whether a server refused a request without giving a reason.
func isFailure(err error) bool {
	s, ok := errors.AsType[*StatusError](err)
	return ok && s.Code == uint32(wire.Failure)
}

// exists wraps err in an fs.ErrExist. The caller knows that err occurred because the name is in use.
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

// fail is like pathError, but replaces the operation and the name if the error already has them.
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
