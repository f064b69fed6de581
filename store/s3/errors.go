package s3

import (
	"context"
	"crypto/tls"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/haul-project/haul/internal/servertext"
	"github.com/haul-project/haul/store"
)

// The errors between a [Store] and its server, besides those of package store. A file
// that was replaced since it was opened is [store.ErrChanged].
var (
	// ErrLost says that a connection was lost, or the server had no time, and that to
	// try again did not help.
	ErrLost = errors.New("the S3 server does not answer")

	// ErrStalled says that a server owes an answer or a part of one, and nothing
	// comes. It is an ErrLost too.
	ErrStalled = fmt.Errorf("%w: nothing has come for too long", ErrLost)

	// ErrProtocol says that a server's answer contradicts what was asked.
	ErrProtocol = errors.New("the S3 server's answer is not right")

	// ErrLogin says that the server does not accept the keys, or that there are none.
	// It is an [fs.ErrPermission].
	ErrLogin = fmt.Errorf("%w: the keys are not accepted", fs.ErrPermission)

	// ErrNoBucket says that the bucket does not exist. It is a [store.ErrUnavailable], and
	// no fs.ErrNotExist, which would be about one file.
	ErrNoBucket = fmt.Errorf("%w: there is no such bucket", store.ErrUnavailable)

	// ErrEndpoint says that the server does not have the bucket, as that is in another
	// region, or that it is no server of S3. It is a [store.ErrUnavailable].
	ErrEndpoint = fmt.Errorf("%w: this is not the S3 server of the bucket", store.ErrUnavailable)
)

// A RefusedError is what a server has refused with. To errors.Is it is one of the errors
// of this package or of package store, if one fits.
type RefusedError struct {
	Status  int
	Code    string        // such as NoSuchBucket; "" if the server does not say
	Message string        // what it said, cut, and safe to print
	After   time.Duration // its Retry-After; 0 if there is none
	Skew    time.Duration // how far this machine's clock is ahead of the server's, if that is why
	region  string        // where the bucket is, if the server says so
	leads   string        // the server that it redirects to
	kind    error
}

// Error says how the server refused, and what to do about it.
func (e *RefusedError) Error() string {
	text := fmt.Sprintf("the server answers %d", e.Status)
	if e.Code != "" {
		text += " " + e.Code
	} else if s := http.StatusText(e.Status); s != "" {
		text += " " + s
	}
	if e.Message != "" {
		text += fmt.Sprintf(" (%s)", e.Message)
	}
	if e.After > 0 {
		text += fmt.Sprintf(", and to come again in %v", e.After)
	}
	if advice := e.advice(); advice != "" {
		text += "; " + advice
	}
	return text
}

// Is reports whether the refusal is of the kind of target.
func (e *RefusedError) Is(target error) bool { return e.kind != nil && errors.Is(e.kind, target) }

// advice returns what can be done about it.
func (e *RefusedError) advice() string {
	switch e.Code {
	case "RequestTimeTooSkewed":
		way := "behind"
		if e.Skew > 0 {
			way = "ahead of"
		}
		if e.Skew == 0 {
			return "set this machine's clock"
		}
		return fmt.Sprintf("set this machine's clock, which is %v %s the server's", e.Skew.Abs().Round(time.Second), way)
	case "ExpiredToken", "TokenRefreshRequired":
		return "the session of these keys is over: get new ones, as by aws sso login"
	case "InvalidAccessKeyId", "InvalidToken", "InvalidClientTokenId", "XAdminUserNotFound":
		return "the server does not know this key: check AWS_ACCESS_KEY_ID, AWS_PROFILE, and the endpoint"
	case "SignatureDoesNotMatch":
		return "the secret key is wrong, or a proxy changes the requests"
	case "AccessDenied":
		return "these keys may not do that, or the file is missing and they may not list the bucket"
	case "NoSuchBucket":
		return "check its name, and the endpoint"
	}
	region := "the bucket is in another region: set AWS_REGION"
	if e.region != "" {
		region += " to " + e.region
	}
	switch {
	case slices.Contains(ofRegion, e.Code):
		return region
	case e.leads != "":
		return "it redirects to " + e.leads + ": set AWS_ENDPOINT_URL to the server that has the bucket"
	case errors.Is(e, ErrEndpoint):
		return "that is no answer of S3 about a file: check the endpoint (AWS_ENDPOINT_URL)"
	}
	return ""
}

// ofRegion are the codes of a server that is not the one of the bucket's region.
var ofRegion = []string{"PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "InvalidRegion"}

// kindOf returns what a refusal means to errors.Is, or nil. That a file is missing takes the
// words of S3 for it, and that the keys may not have it, too: the same status is that of
// keys which were revoked, of a wrong endpoint, and of any proxy on the way.
func kindOf(code string, status int) error {
	switch code {
	case "NoSuchKey", "NoSuchVersion":
		return fs.ErrNotExist
	case "AccessDenied", "InvalidObjectState", "ObjectNotInActiveTierError":
		return fs.ErrPermission
	case "NoSuchBucket":
		return ErrNoBucket
	case "RequestTimeTooSkewed", "ExpiredToken", "TokenRefreshRequired", "InvalidAccessKeyId", "InvalidToken", "InvalidClientTokenId", "XAdminUserNotFound", "SignatureDoesNotMatch":
		return ErrLogin
	case "KeyTooLongError", "InvalidObjectName", "XMinioInvalidObjectName", "InvalidBucketName", "InvalidURI":
		return fs.ErrInvalid
	case "QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded":
		return store.ErrNoSpace
	case "NoSuchUpload":
		return errNoUpload
	case "ExistingObjectIsDirectory": // of a gateway to a directory
		return store.ErrNotRegular
	case "ObjectParentIsFile":
		return fs.ErrNotExist
	}
	switch {
	case slices.Contains(ofRegion, code), status/100 == 3:
		return ErrEndpoint
	case status == http.StatusForbidden && code != "":
		return ErrLogin // as of a user that is suspended, or an account
	}
	switch status {
	case http.StatusNotFound, http.StatusForbidden, http.StatusGone:
		return ErrEndpoint
	case http.StatusUnauthorized:
		return ErrLogin
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return errors.ErrUnsupported
	case http.StatusPreconditionFailed:
		return store.ErrChanged
	case http.StatusRequestEntityTooLarge:
		return errTooLarge
	case http.StatusInsufficientStorage:
		return store.ErrNoSpace
	}
	return nil
}

// explain makes one of the errors of this package of one of minio-go. a is what came with it.
func explain(err error, a *answer) error {
	if r, ok := errors.AsType[minio.ErrorResponse](err); ok {
		status := r.StatusCode
		switch {
		case status/100 == 2 && (r.Code == "InternalError" || r.Code == "SlowDown" || r.Code == "ServiceUnavailable"):
			status = http.StatusInternalServerError // that the server has noticed too late to say so
		case status/100 == 2:
			status = http.StatusBadRequest
		}
		if status == 0 {
			status = a.status
		}
		switch made := r.XMLName.Local == "" && r.StatusCode == a.status && a.method != http.MethodHead; {
		case r.Code == fmt.Sprintf("%d %s", status, http.StatusText(status)):
			r.Code = ""
		case made: // by package minio, of the status alone
			r.Code, r.Message = "", ""
		}
		e := &RefusedError{Status: status, Code: servertext.Cut(r.Code), Message: servertext.Cut(r.Message), After: a.after, region: servertext.Cut(r.Region), leads: a.leads}
		if status == 0 {
			return fmt.Errorf("%w: %s", ErrProtocol, e.Message)
		}
		if e.Code == "RequestTimeTooSkewed" && !a.date.IsZero() {
			e.Skew = a.came.Sub(a.date)
		}
		e.kind = kindOf(e.Code, status)
		return e
	}
	return plain(err)
}

// plain takes away the URL that package http puts around an error, and says of an answer that
// package xml cannot read what it is.
func plain(err error) error {
	u, ok := errors.AsType[*url.Error](err)
	switch {
	case !ok && isBadXML(err):
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	case !ok:
		return err
	case strings.HasPrefix(u.Err.Error(), "Connection closed by foreign host"):
		return io.ErrUnexpectedEOF
	}
	return u.Err
}

// isBadXML reports whether an error is one of package xml, or of a value in an answer.
func isBadXML(err error) bool {
	_, syntax := errors.AsType[*xml.SyntaxError](err)
	_, element := errors.AsType[xml.UnmarshalError](err)
	_, number := errors.AsType[*strconv.NumError](err)
	_, date := errors.AsType[*time.ParseError](err)
	return syntax || element || number || date
}

// isLoss reports whether an error may be gone if the same is tried again.
func isLoss(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, fs.ErrClosed) || errors.Is(err, ErrProtocol) || errors.Is(err, ErrLogin) {
		return false
	}
	if errors.Is(err, ErrStalled) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return true
	}
	lookup, named := errors.AsType[*net.DNSError](err)
	_, cert := errors.AsType[*tls.CertificateVerificationError](err)
	_, record := errors.AsType[tls.RecordHeaderError](err)
	_, network := errors.AsType[*net.OpError](err)
	switch {
	case named && lookup.IsNotFound, cert, record, errors.Is(err, http.ErrSchemeMismatch):
		return false
	}
	return network || named || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		strings.Contains(err.Error(), "server closed idle connection") || strings.Contains(err.Error(), "connection lost") ||
		strings.Contains(err.Error(), "server sent GOAWAY") || strings.Contains(err.Error(), "transport connection broken")
}

// IsRemote reports whether an error is of an S3 server's side, or of the way to it. The
// end of a context is of neither.
func IsRemote(err error) bool {
	_, remote := errors.AsType[remoteError](err)
	moved, ok := errors.AsType[*TransferError](err)
	return remote || ok && !moved.Local
}

// A remoteError marks an error as one of the server's side.
type remoteError struct{ error }

func (e remoteError) Unwrap() error { return e.error }

// A TransferError says where a transfer stopped.
type TransferError struct {
	Op     string // "read"
	URL    string
	Offset int64 // all before it has moved
	Local  bool  // it is the caller's writer that failed
	Err    error
}

// Error says what failed, and where.
func (e *TransferError) Error() string {
	return fmt.Sprintf("%s %s at byte %d: %v", e.Op, e.URL, e.Offset, e.Err)
}

// Unwrap returns the reason.
func (e *TransferError) Unwrap() error { return e.Err }

// fail says what was attempted on what, once.
func (s *Store) fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	_, marked := errors.AsType[remoteError](err)
	if !marked && !errors.Is(err, context.Canceled) && !errors.Is(err, fs.ErrClosed) {
		err = remoteError{err}
	}
	return &fs.PathError{Op: op, Path: s.URL(name), Err: err}
}
