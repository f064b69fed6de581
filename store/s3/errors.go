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

// These are the errors of a [Store] and its server, in addition to those of package store. If a
// file was replaced after it was opened, the error is [store.ErrChanged].
var (
	// ErrLost says that the connection was lost, or that the server was too busy, and that retries
	// did not help. It is also a [store.ErrUnavailable].
	ErrLost error = lostError{}

	// ErrStalled says that the server stopped sending an answer, or did not send any. It is also an
	// ErrLost.
	ErrStalled = fmt.Errorf("%w: nothing has come for too long", ErrLost)

	// ErrProtocol says that a server's answer does not match the request.
	ErrProtocol = errors.New("the S3 server's answer is not right")

	// ErrLogin says that the server does not accept the keys, or that there are no keys. It is also
	// an [fs.ErrPermission].
	ErrLogin = fmt.Errorf("%w: the keys are not accepted", fs.ErrPermission)

	// ErrNoBucket says that the bucket does not exist. It is also a [store.ErrUnavailable]. It is
	// not an fs.ErrNotExist, because that would mean that a single file is missing.
	ErrNoBucket = fmt.Errorf("%w: there is no such bucket", store.ErrUnavailable)

	// ErrEndpoint says that this server does not have the bucket, because the bucket is in another
	// region, or because the server does not speak S3. It is also a [store.ErrUnavailable].
	ErrEndpoint = fmt.Errorf("%w: this is not the S3 server of the bucket", store.ErrUnavailable)
)

// A lostError is the type of ErrLost. Wrapping store.ErrUnavailable would make the text longer.
type lostError struct{}

func (lostError) Error() string { return "the S3 server does not answer" }

func (lostError) Unwrap() error { return store.ErrUnavailable }

// A RefusedError describes a refusal by the server. With errors.Is, it also matches an error of
// this package or of package store that has the same meaning, if there is one.
type RefusedError struct {
	Status  int
	Code    string        // S3 error code, such as NoSuchBucket; "" if the answer has no code
	Message string        // the server's text; shortened, and safe to print
	After   time.Duration // the server's Retry-After; 0 if there is no such header
	Skew    time.Duration // how far this machine's clock is ahead of the server's, if that caused the refusal
	region  string        // region of the bucket, if the answer contains it
	leads   string        // server to which the answer redirects
	kind    error
}

// Error describes the refusal, and suggests what to do about it.
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

// Is reports whether the refusal matches target.
func (e *RefusedError) Is(target error) bool { return e.kind != nil && errors.Is(e.kind, target) }

// advice returns advice on what to do about the refusal.
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

// ofRegion lists the S3 error codes that a server returns if it does not serve the region of the
// bucket.
var ofRegion = []string{"PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "InvalidRegion"}

// kindOf returns the error that a refusal also matches with errors.Is, or nil. A refusal means a
// missing file, or a lack of permission, only if it has an S3 error code: a status without a code
// could also be caused by revoked keys, a wrong endpoint, or a proxy.
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
	case "ExistingObjectIsDirectory": // a gateway to a file system returns this for a directory
		return store.ErrNotRegular
	case "ObjectParentIsFile":
		return fs.ErrNotExist
	}
	switch {
	case slices.Contains(ofRegion, code), status/100 == 3:
		return ErrEndpoint
	case status == http.StatusForbidden && code != "":
		return ErrLogin // for example, the user or the account is suspended
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

// explain converts an error of package minio to an error of this package. a describes the answer.
func explain(err error, a *answer) error {
	if r, ok := errors.AsType[minio.ErrorResponse](err); ok {
		status := r.StatusCode
		switch {
		case status/100 == 2 && (r.Code == "InternalError" || r.Code == "SlowDown" || r.Code == "ServiceUnavailable"):
			status = http.StatusInternalServerError // the server sent the status before it noticed the error
		case status/100 == 2:
			status = http.StatusBadRequest
		}
		if status == 0 {
			status = a.status
		}
		switch made := r.XMLName.Local == "" && r.StatusCode == a.status && a.method != http.MethodHead; {
		case r.Code == fmt.Sprintf("%d %s", status, http.StatusText(status)):
			r.Code = ""
		case made: // package minio has made up the text from the status
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

// plain removes the URL that package http adds to errors. It adds ErrProtocol to errors of package
// xml, which say that an answer could not be parsed.
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

// isBadXML reports whether an error means that an answer is not valid XML, or contains an invalid
// value.
func isBadXML(err error) bool {
	_, syntax := errors.AsType[*xml.SyntaxError](err)
	_, element := errors.AsType[xml.UnmarshalError](err)
	_, number := errors.AsType[*strconv.NumError](err)
	_, date := errors.AsType[*time.ParseError](err)
	return syntax || element || number || date
}

// isLoss reports whether a request that failed with this error may succeed if it is sent again.
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

// IsRemote reports whether an error was caused by the server, or by the connection to it. Errors
// from the end of a context do not count.
func IsRemote(err error) bool {
	_, remote := errors.AsType[remoteError](err)
	moved, ok := errors.AsType[*TransferError](err)
	return remote || ok && !moved.Local
}

// A remoteError marks an error that the server or the connection caused.
type remoteError struct{ error }

func (e remoteError) Unwrap() error { return e.error }

// A TransferError says at which byte a transfer failed.
type TransferError struct {
	Op     string // always "read"
	URL    string
	Offset int64 // all bytes before this one were transferred
	Local  bool  // the caller's writer failed, not the server or the connection
	Err    error
}

// Error says what failed, and where.
func (e *TransferError) Error() string {
	return fmt.Sprintf("%s %s at byte %d: %v", e.Op, e.URL, e.Offset, e.Err)
}

// Unwrap returns the reason.
func (e *TransferError) Unwrap() error { return e.Err }
