package tftp

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/transfer"
)

// errorPacketFor returns the code and the message of the ERROR packet for an error. The message
// contains no local paths. All errors that peers get are chosen here.
func errorPacketFor(err error) (transfer.ErrorCode, string) {
	var fault *transfer.Error
	var said interface{ ForClient() string }
	switch {
	case errors.As(err, &fault) && !fault.Remote:
		return fault.Code, fault.Message
	case errors.As(err, &said):
		return transfer.AccessViolation, said.ForClient()
	case errors.Is(err, store.ErrUnavailable):
		return transfer.NotDefined, "the server cannot reach its files, try again"
	case errors.Is(err, store.ErrUnsettled):
		return transfer.NotDefined, "the file has just changed, try again"
	case errors.Is(err, errNoDirectory):
		return transfer.FileNotFound, "directory not found"
	case errors.Is(err, fs.ErrNotExist):
		return transfer.FileNotFound, "file not found"
	case errors.Is(err, fs.ErrExist):
		return transfer.FileExists, "file already exists"
	case errors.Is(err, store.ErrNotRegular):
		return transfer.AccessViolation, "not a regular file"
	case errors.Is(err, syscall.ENAMETOOLONG):
		return transfer.AccessViolation, "file name is too long"
	case errors.Is(err, fs.ErrInvalid):
		return transfer.AccessViolation, "not a valid file name"
	case errors.Is(err, fs.ErrPermission):
		return transfer.AccessViolation, "access violation"
	case errors.Is(err, store.ErrNoSpace):
		return transfer.DiskFull, "no space left on the server"
	case errors.Is(err, errors.ErrUnsupported):
		return transfer.AccessViolation, "not possible with the files served here"
	case errors.Is(err, fileio.ErrTooLarge):
		return transfer.DiskFull, "file is larger than the server accepts"
	case errors.Is(err, errTextTooLarge):
		return transfer.NotDefined, "file is too large for netascii, use octet"
	case errors.Is(err, fileio.ErrNotAnnounced):
		return transfer.NotDefined, "file is not of the size announced"
	case errors.Is(err, syscall.ELOOP):
		return transfer.AccessViolation, "access violation"
	case errors.Is(err, errDenied):
		return transfer.AccessViolation, "access violation"
	case errors.Is(err, errRate), errors.Is(err, errPerClient):
		return transfer.NotDefined, err.Error()
	case errors.Is(err, errBusy), errors.Is(err, fileio.ErrManyFiles), errors.Is(err, errMemory), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return transfer.NotDefined, "server is busy, try again"
	case errors.Is(err, errStopping):
		return transfer.NotDefined, "server is shutting down"
	case errors.Is(err, fileio.ErrChanged):
		return transfer.NotDefined, "file changed while it was read"
	}
	return transfer.NotDefined, "server error"
}

// Errors with which the server ends a transfer.
var (
	errNoDirectory = errors.New("the directory does not exist")
	errUploadsOff  = &transfer.Error{Code: transfer.AccessViolation, Message: "uploads are not allowed"}
	errReadsOff    = &transfer.Error{Code: transfer.AccessViolation, Message: "downloads are not allowed"}

	errTextTooLarge = errors.New("file is too large for netascii")

	errBusy     = errors.New("too many transfers")
	errMemory   = errors.New("no memory left for buffers")
	errStopping = errors.New("server is shutting down")
	errCrowded  = fmt.Errorf("%w, and others wait", transfer.ErrSilent)
)

// reasonOf returns the Reason to count for a request that was turned away with err.
func reasonOf(err error) Reason {
	switch err {
	case errDenied:
		return Denied
	case errRate:
		return Rate
	case errPerClient:
		return PerClient
	case errStopping:
		return Stopping
	}
	return Busy
}

// Errors with which the guard turns a request away at once.
var (
	errDenied    = errors.New("address is not allowed here")
	errRate      = errors.New("too many requests from this address")
	errPerClient = errors.New("too many transfers of this address")
)
