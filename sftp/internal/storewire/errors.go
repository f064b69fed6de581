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

// The kinds of errors that files have, and how the protocol says them. The
// codes are those of OpenSSH's server (errno_to_portable in sftp-server.c), as
// clients know to read them, and so is its wording, where it has some. Errors that it
// calls a failure have a text of their own here, by which haul's client knows the
// kind again.
//
// Of several that fit, the first counts: ErrNotRegular is an ErrPermission too.
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

// StatusOf returns the code and the words by which a server answers err. The
// words are always one of a few: the text of an error may have paths of this
// machine in it, and those must not be disclosed.
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

// statusKinds has the meaning to errors.Is of the codes of later versions, and of those of
// version 3 that are specific. A plain failure has none.
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

// KindOf returns what a refusal means to errors.Is, or nil if that is not known. A
// plain failure says something by the words of a haul server alone.
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

// ErrNotEmpty is what fs.ErrExist means where a directory is to be removed.
var ErrNotEmpty = fmt.Errorf("%w: the directory is not empty", fs.ErrExist)

// ErrUploadOnly is what fs.ErrExist means for users who may only upload.
var ErrUploadOnly = fmt.Errorf("%w: upload-only access replaces nothing", fs.ErrExist)

// The meaning of fs.ErrInvalid for the names in a request.
var (
	ErrBelowItself = fmt.Errorf("%w: a directory cannot move below itself", fs.ErrInvalid)
	ErrNotUTF8     = fmt.Errorf("%w: the name is not UTF-8", fs.ErrInvalid)
)

// ErrBusy says that as many handles are open as may be.
var ErrBusy = errors.New("too many open files and directories")

// A FullError is a refusal without a reason, of a server whose disk is full.
// OpenSSH's server has no other word for that: ENOSPC is SSH_FX_FAILURE.
type FullError struct{ Refusal error }

// Error says that the disk is full.
func (FullError) Error() string { return "the server has no space left on its disk" }

// Unwrap returns [store.ErrNoSpace] and the refusal.
func (e FullError) Unwrap() []error { return []error{store.ErrNoSpace, e.Refusal} }

// A RoomError says that a file has more bytes than are free on the server's disk.
type RoomError struct{ Free, Size int64 }

// Error says how much is free, and how much it would take.
func (e RoomError) Error() string {
	return fmt.Sprintf("the server has %.1f MB free on its disk, and the file has %.1f MB", float64(e.Free)/1e6, float64(e.Size)/1e6)
}

// Unwrap returns [store.ErrNoSpace].
func (RoomError) Unwrap() error { return store.ErrNoSpace }
