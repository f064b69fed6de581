package storewire

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// errorKinds lists the kinds of file errors, with the status code and the text that represent each
// one in the protocol. The codes are the same as in OpenSSH's server (errno_to_portable in
// sftp-server.c), because clients know them. The texts are OpenSSH's too, where it has one. OpenSSH
// reports some errors as a plain failure; these have their own texts here, by which haul's client
// recognizes the kind.
//
// If several kinds match, the first one counts: for example, ErrNotRegular is an ErrPermission too.
var errorKinds = [...]struct {
	kind   error
	status wire.Status
	text   string
}{
	{io.EOF, wire.EOF, "End of file"},
	{store.ErrUnavailable, wire.Failure, "The server cannot reach its files"},
	{store.ErrUnsettled, wire.Failure, "The file has only just changed"},
	{errors.ErrUnsupported, wire.Unsupported, "Operation unsupported"},
	{store.ErrNoSpace, wire.Failure, "No space left"},
	{store.ErrNotRegular, wire.Failure, "Not a regular file"},
	{syscall.ELOOP, wire.NoSuchFile, "No such file"},
	{fs.ErrNotExist, wire.NoSuchFile, "No such file"},
	{fs.ErrPermission, wire.PermissionDenied, "Permission denied"},
	{ErrNotEmpty, wire.Failure, "Directory not empty"},
	{ErrUploadOnly, wire.Failure, "File exists, and upload-only access replaces nothing"},
	{fs.ErrExist, wire.Failure, "File exists"},
	{ErrBelowItself, wire.Failure, "A directory cannot move below itself"},
	{ErrNotUTF8, wire.BadMessage, "The name is not UTF-8"},
	{fs.ErrInvalid, wire.BadMessage, "Bad message"},
	{ErrBusy, wire.Failure, "Too many open files"},
}

// StatusOf returns the code and the text with which a server answers err. The text is always one of
// a fixed set: the text of an error may contain paths of this machine, which clients must not see.
func StatusOf(err error) (wire.Status, string) {
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

// statusKinds maps status codes to the errors that errors.Is recognizes: the specific codes of
// version 3, and the codes of later versions. A plain failure has no entry.
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

// KindOf returns the error that errors.Is recognizes in a refusal, or nil if it is not known. A
// plain failure has a kind only if its text is one that haul's server sends.
func KindOf(e *wire.StatusError) error {
	if e.Status == wire.Failure {
		for i := range errorKinds {
			if k := &errorKinds[i]; k.status == wire.Failure && k.text == e.Message {
				return k.kind
			}
		}
	}
	return statusKinds[e.Status]
}

// ErrNotEmpty is the fs.ErrExist for a request to remove a directory that is not empty.
var ErrNotEmpty = fmt.Errorf("%w: the directory is not empty", fs.ErrExist)

// ErrUploadOnly is the fs.ErrExist for users who may only upload, and so cannot replace a file.
var ErrUploadOnly = fmt.Errorf("%w: upload-only access replaces nothing", fs.ErrExist)

// These are the fs.ErrInvalid errors for names in requests, with the reason.
var (
	ErrBelowItself = fmt.Errorf("%w: a directory cannot move below itself", fs.ErrInvalid)
	ErrNotUTF8     = fmt.Errorf("%w: the name is not UTF-8", fs.ErrInvalid)
)

// ErrBusy says that the connection has as many open handles as it may have.
var ErrBusy = errors.New("too many open files and directories")

// A FullError says that a server refused a request without giving a reason, and that its disk was
// full. OpenSSH's server reports ENOSPC only as SSH_FX_FAILURE.
type FullError struct{ Refusal error }

// Error says that the disk is full.
func (FullError) Error() string { return "the server has no space left on its disk" }

// Unwrap returns [store.ErrNoSpace] and the refusal.
func (e FullError) Unwrap() []error { return []error{store.ErrNoSpace, e.Refusal} }

// A RoomError says that a file has more bytes than are free on the server's disk.
type RoomError struct{ Free, Size int64 }

// Error says how many megabytes are free, and how many the file has.
func (e RoomError) Error() string {
	return fmt.Sprintf("the server has %.1f MB free on its disk, and the file has %.1f MB", float64(e.Free)/1e6, float64(e.Size)/1e6)
}

// Unwrap returns [store.ErrNoSpace].
func (RoomError) Unwrap() error { return store.ErrNoSpace }
