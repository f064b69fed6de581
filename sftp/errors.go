package sftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// The kinds of errors that files have, and how the protocol says them. The
// codes are those of OpenSSH's server (errno_to_portable in sftp-server.c), as
// clients have learned to read them, and so are its words, where it has some.
// What it calls a failure has a word of its own here, by which the other side
// of haul knows the kind again.
//
// Of several that fit, the first counts: ErrNotRegular is an ErrPermission too.
var errorKinds = [...]struct {
	kind   error
	status wire.Status
	text   string
}{
	{io.EOF, wire.EOF, "End of file"},
	{errors.ErrUnsupported, wire.Unsupported, "Operation unsupported"},
	{store.ErrNoSpace, wire.Failure, "No space left"},
	{store.ErrNotRegular, wire.Failure, "Not a regular file"},
	{syscall.ELOOP, wire.NoSuchFile, "No such file"},
	{fs.ErrNotExist, wire.NoSuchFile, "No such file"},
	{fs.ErrPermission, wire.PermissionDenied, "Permission denied"},
	{errNotEmpty, wire.Failure, "Directory not empty"},
	{errKept, wire.Failure, "File exists, and upload-only access replaces nothing"},
	{fs.ErrExist, wire.Failure, "File exists"},
	{errBelowItself, wire.Failure, "A directory cannot move below itself"},
	{errNotUTF8, wire.BadMessage, "The name is not UTF-8"},
	{fs.ErrInvalid, wire.BadMessage, "Bad message"},
	{errBusy, wire.Failure, "Too many open files"},
}

// statusOf returns the code and the words by which a server answers err. The
// words are always one of a few: the text of an error may have paths of this
// machine in it, and those are nobody's business.
func statusOf(err error) (wire.Status, string) {
	if err == nil {
		return wire.OK, "Success"
	}
	for i := range errorKinds {
		if k := &errorKinds[i]; errors.Is(err, k.kind) {
			return k.status, k.text
		}
	}
	return wire.Failure, "Failure"
}

// What the codes of later versions, and those of version 3 that say enough,
// mean to errors.Is. A plain failure says nothing.
var statusKinds = map[wire.Status]error{
	wire.EOF:              io.EOF,
	wire.NoSuchFile:       fs.ErrNotExist,
	wire.PermissionDenied: fs.ErrPermission,
	wire.BadMessage:       fs.ErrInvalid,
	wire.Unsupported:      errors.ErrUnsupported,
	wire.NoSuchPath:       fs.ErrNotExist,
	wire.FileExists:       fs.ErrExist,
	wire.WriteProtected:   fs.ErrPermission,
	wire.NoSpace:          store.ErrNoSpace,
	wire.QuotaExceeded:    store.ErrNoSpace,
	wire.DirNotEmpty:      fs.ErrExist,
	wire.NotADirectory:    fs.ErrNotExist,
	wire.InvalidName:      fs.ErrInvalid,
	wire.LinkLoop:         syscall.ELOOP,
}

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

// newStatusError makes a StatusError of a reply's.
func newStatusError(e *wire.StatusError) *StatusError {
	s := &StatusError{Code: uint32(e.Status), Message: e.Message, kind: statusKinds[e.Status]}
	if e.Status != wire.Failure {
		return s
	}
	for i := range errorKinds {
		if k := &errorKinds[i]; k.status == wire.Failure && k.text == e.Message {
			s.kind = k.kind
		}
	}
	return s
}

// Error says how the server refused. Its words are cut, and what could hurt a
// terminal or a log is replaced.
func (e *StatusError) Error() string {
	return (&wire.StatusError{Status: wire.Status(e.Code), Message: e.Message}).Error()
}

// Is reports whether the server's refusal is of the kind of target.
func (e *StatusError) Is(target error) bool { return e.kind != nil && errors.Is(e.kind, target) }

// IsRemote reports whether an error is of a server's side: it has refused what a
// [Client] asked for, or has not got what that takes, or the way to it is lost.
// What is not is of this side, such as that of a reader or a writer that the
// caller gave. The end of a context is of neither.
//
// All that a Client and what it opens return says so itself, whichever phase it
// is of: of copies, this tells which end of them has failed.
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

// errNotEmpty is what fs.ErrExist means where a directory is to be removed.
var errNotEmpty = fmt.Errorf("%w: the directory is not empty", fs.ErrExist)

// errKept is what fs.ErrExist means to who may only upload.
var errKept = fmt.Errorf("%w: upload-only access replaces nothing", fs.ErrExist)

// What fs.ErrInvalid means of the names that a request has.
var (
	errBelowItself = fmt.Errorf("%w: a directory cannot move below itself", fs.ErrInvalid)
	errNotUTF8     = fmt.Errorf("%w: the name is not UTF-8", fs.ErrInvalid)
)

// errBusy says that somebody has opened as much as may be open.
var errBusy = errors.New("too many open files and directories")

// A panicError is what was recovered of a panic.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// Unwrap returns the value if that is an error.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}
