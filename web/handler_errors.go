package web

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"syscall"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/users"
)

// A failure is an error with its own HTTP status. Its text is sent to the peer.
type failure struct {
	status int
	text   string
}

func (f *failure) Error() string { return f.text }

// The failures of requests of any kind.
var (
	errTarget       = &failure{http.StatusBadRequest, "the target of the request is no path"}
	errDots         = &failure{http.StatusBadRequest, "the path has . or .. in it"}
	errBackslash    = &failure{http.StatusBadRequest, "the path has a backslash in it; write a slash"}
	errSlash        = &failure{http.StatusBadRequest, "the path has a slash in a name (%2F)"}
	errDoubleSlash  = &failure{http.StatusBadRequest, "the path has two slashes in a row; write one"}
	errBadName      = &failure{http.StatusBadRequest, "the path has a NUL in it"}
	errLongName     = &failure{http.StatusRequestURITooLong, "the path is too long"}
	errMethod       = &failure{http.StatusMethodNotAllowed, "the method is not allowed here"}
	errNoUploads    = &failure{http.StatusMethodNotAllowed, "uploads are not allowed here"}
	errNoRemovals   = &failure{http.StatusMethodNotAllowed, "files cannot be removed here"}
	errUploadOnly   = &failure{http.StatusForbidden, "this access is for uploads only"}
	errCrossOrigin  = &failure{http.StatusForbidden, "a page of another site may not change files here; open a page of this server, with the same name and port in its URL as in the request"}
	errCondition    = &failure{http.StatusPreconditionFailed, "a condition of the request does not hold"}
	errRange        = &failure{http.StatusRequestedRangeNotSatisfiable, "the file has no such range"}
	errArchive      = &failure{http.StatusBadRequest, "there are archives of two kinds: archive=tar and archive=zip"}
	errManyListed   = &failure{http.StatusInsufficientStorage, "the directory has too many entries to be listed"}
	errDeepArchive  = &failure{http.StatusInsufficientStorage, "the directories are too deep for an archive"}
	errLargeArchive = &failure{http.StatusInsufficientStorage, "there are too many files for an archive"}
	errManyFiles    = &failure{http.StatusServiceUnavailable, "the server has too many files open"}
	errListing      = &failure{http.StatusServiceUnavailable, "too many large directories are being listed"}
)

// The failures of uploads.
var (
	errPutDir       = &failure{http.StatusConflict, "the name is a directory's"}
	errTaken        = &failure{http.StatusConflict, "the name is taken, and may not be replaced"}
	errTooLarge     = &failure{http.StatusRequestEntityTooLarge, "the upload is too large"}
	errCoded        = &failure{http.StatusUnsupportedMediaType, "the upload has a content coding, and is to be sent as it is"}
	errUploadRange  = &failure{http.StatusBadRequest, "the Content-Range is not of the form bytes FIRST-LAST/SIZE, or not that of the content"}
	errSource       = &failure{http.StatusBadRequest, "the Upload-Source is too long"}
	errGap          = &failure{http.StatusRequestedRangeNotSatisfiable, "the part begins behind what is there: see Upload-Offset"}
	errNotResumable = &failure{http.StatusBadRequest, "uploads cannot be sent in parts here"}
	errStalled      = &failure{http.StatusRequestTimeout, "the content comes too slowly"}
)

// The failures of logins.
var (
	errLogin     = &failure{http.StatusUnauthorized, "log in with a name and a password"}
	errPlain     = &failure{http.StatusForbidden, "passwords are taken over HTTPS only"}
	errPenalized = &failure{http.StatusTooManyRequests, "too many logins have failed"}
	errManyTries = &failure{http.StatusServiceUnavailable, "too many logins are under way"}
)

// Reasons why a file was not transferred whole, besides errors of its store and of the connection.
var (
	// ErrShrunk means that a file became shorter while it was sent. The connection is then closed,
	// so that the peer notices.
	ErrShrunk = errors.New("the file became shorter while it was sent")

	// ErrCutOff means that an upload ended before its size was reached, most often because the
	// connection was lost.
	ErrCutOff error = &failure{http.StatusBadRequest, "the upload ended before its size was reached"}

	// ErrGivenUp means that the peer gave up the request before there was an answer.
	ErrGivenUp error = &failure{http.StatusServiceUnavailable, "the request was given up"}

	// ErrManyOpen means that as many requests have files open as [Handler.MaxOpen] allows, in all
	// or for one source.
	ErrManyOpen error = &failure{http.StatusServiceUnavailable, "too many files are being sent or taken"}

	// ErrNotListed means that [Handler.Listing] is off, and the request was for a directory without
	// an index, or for a name that ends in a slash and is not a directory.
	ErrNotListed error = &failure{http.StatusNotFound, "there is no such page, and directories are not listed here"}

	// ErrShutdown means that the server was shut down before the request was over: the cause of the
	// request's context is [http.ErrServerClosed].
	ErrShutdown error = &failure{http.StatusServiceUnavailable, "server is shutting down"}

	// ErrLoginEnded means that [Account.Life] ended before the request was over.
	ErrLoginEnded error = &failure{http.StatusUnauthorized, "the login has ended"}

	errPanic = errors.New("the store panicked")
)

// statusOf returns the status and the text that answer err. The text is one of a fixed set, or the
// text that an error has for clients. Other text of an error is not sent, because it may contain
// paths of this machine, which clients must not see.
//
// If several cases match, the first one applies: for example, ErrNotRegular is an ErrPermission
// too.
func statusOf(method string, err error) (status int, text string) {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.status, f.text
	}
	writes := method == http.MethodPut || method == http.MethodDelete
	var said interface{ ForClient() string }
	switch {
	case errors.As(err, &said):
		return http.StatusForbidden, said.ForClient()
	case errors.Is(err, store.ErrUnavailable):
		return http.StatusBadGateway, "the server cannot reach its files"
	case errors.Is(err, store.ErrUnsettled):
		return http.StatusServiceUnavailable, "the file has just changed: ask again"
	case errors.Is(err, store.ErrChanged): // the file has changed since the conditions were checked
		return errCondition.status, errCondition.text
	case errors.Is(err, store.ErrNoSpace):
		return http.StatusInsufficientStorage, "there is no room for it" // status 507 is defined in RFC 4918 §11.5
	case errors.Is(err, store.ErrBusy):
		return http.StatusLocked, "another upload of that name is under way" // status 423 is defined in RFC 4918 §11.3
	case errors.Is(err, syscall.EFBIG):
		return errTooLarge.status, errTooLarge.text
	case errors.Is(err, store.ErrNotRegular) && writes:
		return http.StatusConflict, "what has the name is no file"
	case errors.Is(err, fs.ErrExist):
		return errTaken.status, errTaken.text
	case errors.Is(err, fs.ErrNotExist) && method == http.MethodPut:
		return http.StatusConflict, "there is no such directory, and none can be made" // as RFC 4918 §9.7.1 requires
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ELOOP):
		return http.StatusNotFound, "there is no such file"
	case errors.Is(err, fs.ErrPermission):
		return http.StatusForbidden, "that is not allowed"
	case errors.Is(err, fs.ErrInvalid):
		return http.StatusBadRequest, "that is no name for a file here"
	case errors.Is(err, errors.ErrUnsupported):
		return http.StatusNotImplemented, "this store cannot do that"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return errManyFiles.status, errManyFiles.text
	case errors.Is(err, users.ErrBusy):
		return errManyTries.status, errManyTries.text
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, "the request was given up"
	}
	return http.StatusInternalServerError, "the server failed; its log may tell more"
}
