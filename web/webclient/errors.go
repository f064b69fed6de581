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

// The errors that a [Client] returns about its server, besides the errors of package store.
var (
	// ErrLost means that a connection was lost, and that trying again did not help or was
	// impossible.
	ErrLost = errors.New("the connection to the web server is lost")

	// ErrStalled means that the server sends no answer, or stopped in the middle of one. It is an
	// ErrLost too.
	ErrStalled = fmt.Errorf("%w: nothing has come for too long", ErrLost)

	// ErrChanged means that a file is no longer the version that was opened.
	ErrChanged = errors.New("the file has changed on the server")

	// ErrProtocol means that a server's answer violates HTTP, or contradicts an earlier one.
	ErrProtocol = errors.New("the server's answer is not right")

	// ErrLogin means that the server requires a user and a password, and did not receive the right
	// ones. It is an [fs.ErrPermission].
	ErrLogin = fmt.Errorf("%w: the server asks for another user or password", fs.ErrPermission)

	// ErrEncoded means that a server has sent a file with a content coding, though the request
	// allowed none: the bytes are not those of the file.
	ErrEncoded = errors.New("the server has sent the file encoded")
)

// A StatusError is a status with which a server refused a request (RFC 9110 §15). errors.Is matches
// it with an error of package store, if one fits.
type StatusError struct {
	Code    int
	Message string        // the first line of the answer's text, shortened, and safe to print
	After   time.Duration // the server's Retry-After; 0 if the answer has no such header
	kind    error
}

// Error returns the status and the server's message.
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

// Is makes errors.Is match the error that stands for the status: see kindOfStatus.
func (e *StatusError) Is(target error) bool { return e.kind != nil && errors.Is(e.kind, target) }

// kindOfStatus returns the error that a status matches in errors.Is, or nil.
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

// IsRemote reports whether the cause of an error is the web server or the path to it: the server
// refused a request of a [Client] or broke off, or the connection is lost. Other errors are local,
// such as an error of the caller's reader or writer. The error of a cancelled context is neither.
func IsRemote(err error) bool {
	_, remote := errors.AsType[remoteError](err)
	moved, ok := errors.AsType[*TransferError](err)
	return remote || ok && !moved.Local
}

// A remoteError marks an error whose cause is at the server.
type remoteError struct{ error }

func (e remoteError) Unwrap() error { return e.error }

// onServer marks err as a remoteError, unless its cause is known to be local.
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
	Offset int64 // all bytes before this offset were transferred
	Local  bool  // the caller's reader or writer failed
	Err    error
}

// Error returns the operation, the URL, the offset and the reason.
func (e *TransferError) Error() string {
	return fmt.Sprintf("%s %s at byte %d: %v", e.Op, e.URL, e.Offset, e.Err)
}

// Unwrap returns the reason.
func (e *TransferError) Unwrap() error { return e.Err }

// A redirectError is a redirect that is not followed. Trying again would not help.
type redirectError struct{ error }

func (e redirectError) Unwrap() error { return e.error }

// isLoss reports whether err is such that the same request may succeed later, as after a lost
// connection.
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

// isTimeout reports whether a context.DeadlineExceeded comes from the network rather than from the
// caller's context: connecting fails with the same error if it takes too long.
func isTimeout(err error) bool {
	_, ok := errors.AsType[*net.OpError](err)
	return ok
}

// IsCertificateError reports whether an error means that a server's certificate, or its name, is
// not trusted.
func IsCertificateError(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// isTLS reports whether the two sides could not agree on how, or whether, to use TLS. Trying again
// would not help.
func isTLS(err error) bool {
	_, record := errors.AsType[tls.RecordHeaderError](err)
	alert, ok := errors.AsType[*net.OpError](err)
	return record || errors.Is(err, http.ErrSchemeMismatch) || ok && alert.Op == "remote error" && isDecision(alert.Err) ||
		// The server chose something that was not offered.
		err != nil && strings.HasPrefix(err.Error(), "tls: server ")
}

// decisions are phrases in package tls's texts of the alerts (RFC 8446 §6.2) by which a server
// rejects this client; tls has no types for them. Other alerts may concern a single connection,
// such as one whose bytes were changed on the way.
var decisions = []string{
	"handshake failure", "certificate", "access denied", "protocol version not supported", "insufficient security level",
	"unrecognized name", "no application protocol", "unknown PSK identity", "encrypted client hello required",
}

// isDecision reports whether a TLS alert is one of the decisions.
func isDecision(alert error) bool {
	return slices.ContainsFunc(decisions, func(words string) bool { return strings.Contains(alert.Error(), words) })
}

// lost marks err as an ErrLost if its cause is a lost connection. tries is the number of failures in a
// row, for the message.
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

// A refusedError means that an address refuses connections.
type refusedError struct {
	addr string
	err  error
}

func (e refusedError) Error() string   { return "nothing listens at " + e.addr }
func (e refusedError) Unwrap() []error { return []error{ErrLost, e.err} }

// addressOf returns the address that a network error concerns; "" if the error names no address.
func addressOf(err error) string {
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Addr != nil {
		return dial.Addr.String()
	}
	return ""
}

// lostUnguarded returns the error for a lost connection after which the transfer cannot resume:
// nothing shows whether the rest of the file would belong to the same version.
func lostUnguarded(err error) error {
	return fmt.Errorf("%w; the rest is not asked for, as it could be of another version: the server names none, or the file was just written", lost(err, 1))
}

// plainError removes the URL that package http adds to an error, because it may hold a secret. It
// recognizes invalid answers by their text, as http has no types for them.
func plainError(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if strings.HasPrefix(err.Error(), "failed to parse Location") {
		return fmt.Errorf("%w: the Location of a redirect is not a URL", ErrProtocol) // the text of err may contain a secret
	}
	if slices.ContainsFunc(wrongAnswers, func(words string) bool { return strings.Contains(err.Error(), words) }) {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return err
}

// wrongAnswers are phrases of package http's errors for invalid answers, as opposed to lost
// connections.
var wrongAnswers = []string{
	"malformed", "headers exceeded", "larger than advertised", "too many 1xx", "bad Content-Length", "multiple Content-Length",
	"unsupported transfer encoding", "in chunk length", "chunk length too large", "trailer",
}

// A loginError says why the client has no password.
type loginError struct{ error }

func (e loginError) Unwrap() error { return e.error }
