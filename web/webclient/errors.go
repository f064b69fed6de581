package webclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

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

// isLoss reports whether an error may be gone if the same is tried again.
func isLoss(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) ||
		errors.Is(err, ErrProtocol) || errors.Is(err, ErrChanged) || errors.Is(err, ErrEncoded) || errors.Is(err, fs.ErrClosed) ||
		errors.Is(err, errors.ErrUnsupported) {
		return false
	}
	_, redirect := errors.AsType[redirectError](err)
	_, lookup := errors.AsType[*net.DNSError](err)
	_, login := errors.AsType[loginError](err)
	_, refused := errors.AsType[*StatusError](err)
	return !redirect && !lookup && !login && !refused && !IsCertificateError(err) && !isTLS(err)
}

// isTimeout reports whether an error is of the network's own time: a connection
// that was not made by then is also a DeadlineExceeded.
func isTimeout(err error) bool {
	_, ok := errors.AsType[*net.OpError](err)
	return ok
}

// IsCertificateError reports whether an error is that a server's certificate, or
// its name, is not to be trusted.
func IsCertificateError(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// isTLS reports whether two sides could not agree on how to speak TLS, or on whether
// to. The same would come of it another time.
func isTLS(err error) bool {
	_, record := errors.AsType[tls.RecordHeaderError](err)
	alert, ok := errors.AsType[*net.OpError](err)
	return record || errors.Is(err, http.ErrSchemeMismatch) || ok && alert.Op == "remote error" && isDecision(alert.Err) ||
		err != nil && strings.HasPrefix(err.Error(), "tls: server ") // has chosen what it was not offered
}

// decisions are what the alerts of RFC 8446 §6.2 are called by package tls, which has
// no type for them: those by which a server says that it will not have this client. The
// others may be of one connection alone, as that its bytes were changed on the way.
var decisions = []string{
	"handshake failure", "certificate", "access denied", "protocol version not supported", "insufficient security level",
	"unrecognized name", "no application protocol", "unknown PSK identity", "encrypted client hello required",
}

// isDecision reports whether an alert of TLS is one of the decisions.
func isDecision(alert error) bool {
	return slices.ContainsFunc(decisions, func(words string) bool { return strings.Contains(alert.Error(), words) })
}

// lost says that a connection is lost for good, if that is what err is.
func lost(err error, tries int) error {
	switch {
	case !isLoss(err), errors.Is(err, ErrLost):
		return err
	case errors.Is(err, syscall.ECONNREFUSED) && addressOf(err) != "":
		return refusedError{addressOf(err), err}
	case tries > 1:
		return fmt.Errorf("%w, %d times in a row: %w", ErrLost, tries, err)
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}

// A refusedError says that an address refuses connections.
type refusedError struct {
	addr string
	err  error
}

func (e refusedError) Error() string   { return "nothing listens at " + e.addr }
func (e refusedError) Unwrap() []error { return []error{ErrLost, e.err} }

// addressOf returns the address that an error of the network is about; "" if it does
// not say.
func addressOf(err error) string {
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Addr != nil {
		return dial.Addr.String()
	}
	return ""
}

// lostUnguarded says that a connection is lost, and that nothing shows whether the
// rest of the file would be of the same version.
func lostUnguarded(err error) error {
	return fmt.Errorf("%w; the rest is not asked for, as it could be of another version: the server names none, or the file was just written", lost(err, 1))
}

// plainError takes away what package http puts around an error: the URL, which
// may hold a secret. It recognizes wrong answers by their text, as http has no types
// for them.
func plainError(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if slices.ContainsFunc(wrongAnswers, func(words string) bool { return strings.Contains(err.Error(), words) }) {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return err
}

// wrongAnswers are words that package http has for answers that are none, rather
// than for connections that are lost.
var wrongAnswers = []string{
	"malformed", "headers exceeded", "larger than advertised", "too many 1xx", "bad Content-Length", "multiple Content-Length",
	"unsupported transfer encoding", "in chunk length", "chunk length too large", "trailer",
}

// A loginError is why a password could not be asked for.
type loginError struct{ error }

func (e loginError) Unwrap() error { return e.error }
