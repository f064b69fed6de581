package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/store/s3"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/web/webclient"
)

// IsNoAnswer reports whether a server could not be reached, or the connection was lost.
func IsNoAnswer(err error) bool {
	_, lookup := errors.AsType[*net.DNSError](err)
	op, network := errors.AsType[*net.OpError](err)
	noAnswers := []error{
		transfer.ErrSilent, sftpclient.ErrConnectionLost, sftpclient.ErrStalled, webclient.ErrLost, s3.ErrLost, os.ErrDeadlineExceeded, context.DeadlineExceeded,
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ETIMEDOUT,
	}
	return lookup || network && strings.HasPrefix(op.Net, "tcp") ||
		slices.ContainsFunc(noAnswers, func(e error) bool { return errors.Is(err, e) })
}

// IsRemote reports whether an error was caused by a server or the path to it, and not by this
// machine's files.
func IsRemote(err error) bool {
	return sftpclient.IsRemote(err) || webclient.IsRemote(err) || s3.IsRemote(err)
}

// IsLost reports whether a server can no longer be reached or refuses the login, so that requests
// for other files would fail too.
func IsLost(err error) bool {
	gone := []error{sftpclient.ErrConnectionLost, sftpclient.ErrClosed, webclient.ErrLost, webclient.ErrLogin, s3.ErrLost, s3.ErrLogin, s3.ErrNoBucket, s3.ErrEndpoint}
	return slices.ContainsFunc(gone, func(e error) bool { return errors.Is(err, e) })
}

// Advice returns advice for the user about a server that is not trusted, does not exist, or uses
// another protocol. For other errors it returns "".
func Advice(err error) string {
	_, signer := errors.AsType[x509.UnknownAuthorityError](err)
	name, misnamed := errors.AsType[x509.HostnameError](err)
	status, answered := errors.AsType[*webclient.StatusError](err)
	record, noTLS := errors.AsType[tls.RecordHeaderError](err)
	lookup, unnamed := errors.AsType[*net.DNSError](err)
	switch {
	case unnamed && lookup.IsNotFound:
		return fmt.Sprintf("no host has the name %s: check its spelling", console.Visible(lookup.Name))
	case noTLS && string(record.RecordHeader[:4]) == "SSH-", strings.Contains(err.Error(), `malformed HTTP response "SSH-`):
		return "that port speaks SSH: its URL begins with sftp://"
	case answered && status.Code == http.StatusUnauthorized:
		return "the user or the password is wrong, or this user may not log in from here"
	case signer, misnamed && selfSigned(name.Certificate):
		return trustAdvice(err)
	case misnamed && name.Host != "":
		return fmt.Sprintf("the server's certificate is not for %s: use one of its names in the URL", console.Visible(name.Host))
	case errors.Is(err, http.ErrSchemeMismatch), strings.Contains(err.Error(), `no SSH server: it says "HTTP/`):
		return "that port speaks HTTP without TLS: its URL begins with http://"
	}
	return ""
}

// selfSigned reports whether a certificate names its own subject as the issuer.
func selfSigned(c *x509.Certificate) bool {
	return len(c.RawIssuer) > 0 && bytes.Equal(c.RawIssuer, c.RawSubject)
}

// trustAdvice explains how to trust a server whose certificate was not signed by a known authority.
func trustAdvice(err error) string {
	said := "--cacert FILE trusts the certificates in FILE: put there the one that signed the server's, or the server's own if it is self-signed"
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok && len(bad.UnverifiedCertificates) > 0 {
		said += fmt.Sprintf("; or --fingerprint %x trusts it, if the server itself shows this SHA-256 of its certificate", sha256.Sum256(bad.UnverifiedCertificates[0].Raw))
	}
	return said
}
