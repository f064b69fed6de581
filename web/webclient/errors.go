package webclient

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/haul-project/haul/store"
)

// The errors between a [Client] and its server, besides the errors of package
// store.
var (
	// ErrLost says that a connection was lost, and that to try again did
	// not help, or could not.
	ErrLost = errors.New("the connection to the web server is lost")

	// ErrStalled says that a server owes an answer or a part of one, and
	// nothing comes. It is an ErrLost too.
	ErrStalled = fmt.Errorf("%w: nothing has come for too long", ErrLost)

	// ErrChanged says that a file is another one by now than it was when it
	// was opened.
	ErrChanged = errors.New("the file has changed on the server")

	// ErrProtocol says that a server's answer is not what HTTP allows, or
	// contradicts what it said before.
	ErrProtocol = errors.New("the server's answer is not right")

	// ErrLogin says that the server wants a user and a password, and has
	// not got the right ones. It is an [fs.ErrPermission].
	ErrLogin = fmt.Errorf("%w: the server asks for another user or password", fs.ErrPermission)

	// ErrEncoded says that a server has sent a file encoded, though it was
	// asked not to: what came is not the file.
	ErrEncoded = errors.New("the server has sent the file encoded")
)

// maxText is how many bytes of a server's words are repeated.
const maxText = 200

// A StatusError is a status by which a server has refused (RFC 9110 §15).
// To errors.Is it is one of the errors of package store, if one fits.
type StatusError struct {
	Code    int
	Message string        // the first line of what it said, cut, and safe to print
	After   time.Duration // its Retry-After; 0 if there is none
	kind    error
}

// Error says how the server refused.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("the server answers %d", e.Code)
	if s := http.StatusText(e.Code); s != "" {
		text += " " + s
	}
	if e.Message != "" && !strings.EqualFold(e.Message, http.StatusText(e.Code)) {
		text += fmt.Sprintf(" (%s)", e.Message)
	}
	if e.After > 0 {
		text += fmt.Sprintf(", and to come again in %v", e.After)
	}
	return text
}

// Is reports whether the refusal is of the kind of target.
func (e *StatusError) Is(target error) bool { return e.kind != nil && errors.Is(e.kind, target) }

// kindOfStatus returns what a status means to errors.Is, or nil.
func kindOfStatus(code int) error {
	switch code {
	case http.StatusNotFound, http.StatusGone:
		return fs.ErrNotExist
	case http.StatusUnauthorized, http.StatusProxyAuthRequired:
		return ErrLogin
	case http.StatusForbidden:
		return fs.ErrPermission
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return errors.ErrUnsupported
	case http.StatusPreconditionFailed:
		return ErrChanged
	case http.StatusInsufficientStorage:
		return store.ErrNoSpace
	case http.StatusLocked:
		return store.ErrBusy
	}
	return nil
}

// statusError makes an error of an answer, and closes that.
func statusError(a *response) error {
	defer a.close()
	e := &StatusError{Code: a.StatusCode, kind: kindOfStatus(a.StatusCode)}
	e.After, _ = parseRetryAfter(a.Header.Get("Retry-After"), time.Now())
	if strings.HasPrefix(a.Header.Get("Content-Type"), "text/plain") && a.Request.Method != http.MethodHead {
		line, _ := bufio.NewReader(io.LimitReader(a, maxText+1)).ReadString('\n')
		e.Message = cutText(line)
	}
	return e
}

// cutText makes a server's words safe to print, and no longer than need be.
func cutText(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '?'
		}
		return r
	}, strings.TrimRight(s, "\r\n")))
}

// IsRemote reports whether an error is of a web server's side: it has refused
// what a [Client] asked for, or has broken off, or the way to it is lost. All other
// errors are of this side, such as that of a reader or a writer that the caller
// gave. The end of a context is of neither.
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
	_, marked := errors.AsType[remoteError](err)
	if err == nil || marked || ok && moved.Local || errors.Is(err, context.Canceled) || errors.Is(err, fs.ErrClosed) {
		return err
	}
	return remoteError{err}
}

// A TransferError says where a transfer stopped.
type TransferError struct {
	Op     string // "read" or "write"
	URL    string
	Offset int64 // all before it has moved
	Local  bool  // it is the caller's reader or writer that failed
	Err    error
}

// Error says what failed, and where.
func (e *TransferError) Error() string {
	return fmt.Sprintf("%s %s at byte %d: %v", e.Op, e.URL, e.Offset, e.Err)
}

// Unwrap returns the reason.
func (e *TransferError) Unwrap() error { return e.Err }

// A redirectError is a redirect that is not followed, which to repeat is of no
// use.
type redirectError struct{ error }

func (e redirectError) Unwrap() error { return e.error }
