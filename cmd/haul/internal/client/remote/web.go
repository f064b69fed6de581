package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/web/webclient"
)

// A webDialer makes clients for web servers and for buckets.
type webDialer struct {
	cfg     *Config
	notices *notices
	asker   *asker
}

// minNotedPause is the shortest pause that haul reports.
const minNotedPause = time.Second

// waiting reports that a server has asked haul to try again later. It prints a note only once for
// each server and status.
func (d webDialer) waiting(host string, status int, pause time.Duration) {
	if d.cfg.Again != nil {
		d.cfg.Again(&webclient.StatusError{Code: status})
	}
	if d.cfg.Quiet || pause < minNotedPause {
		return
	}
	d.notices.print(fmt.Sprintf("wait %s %d", host, status), fmt.Sprintf("note: %s answers %d %s; haul waits before it asks again, %v this time",
		host, status, http.StatusText(status), pause.Round(time.Second)))
}

// reconnecting reports once that the connection to a server is lost. It reports nothing if the next
// attempt follows within minNotedPause.
func (d webDialer) reconnecting(host string, err error, pause time.Duration) {
	if d.cfg.Again != nil {
		d.cfg.Again(err)
	}
	if d.cfg.Quiet || pause < minNotedPause {
		return
	}
	d.notices.print("lost "+host, fmt.Sprintf("note: the connection to %s is lost (%v); haul tries again for some %v, and then resumes",
		host, err, webclient.DefaultAbsenceTimeout))
}

// connect returns the server of a location. first is the name of the file that will be read first,
// or "" if it is not known.
func (d webDialer) connect(l Location, first string) (webServer, error) {
	c, err := d.client(l.site.root, l, first)
	if err != nil {
		return webServer{}, err
	}
	return webServer{c.Tree(), c}, nil
}

// client returns a client for the files below the URL `root`, which is on the server of the
// location.
func (d webDialer) client(root string, l Location, first string) (*webclient.Client, error) {
	u, err := url.Parse(root)
	if err != nil {
		return nil, failure.Usage.Errorf("location %v: %w", l, err)
	}
	o := webclient.Config{
		User: l.site.user, Query: l.site.query, First: first, UserAgent: d.cfg.UserAgent, Conns: d.cfg.Conns,
		ConnectTimeout: d.cfg.Patience.Answer, AnswerTimeout: d.cfg.Patience.Answer, StallTimeout: d.cfg.Patience.Stall, AbsenceTimeout: d.cfg.Patience.Away,
	}
	o.Waiting = func(status int, pause time.Duration) { d.waiting(u.Host, status, pause) }
	o.Reconnecting = func(err error, pause time.Duration) { d.reconnecting(u.Host, err, pause) }
	if d.cfg.served {
		o.Redirect = d.cfg.redirect
	}
	if o.TLS, err = d.cfg.Web.TLS(); err != nil {
		return nil, err
	}
	if err := d.cfg.Web.checkPin(u, "give"); err != nil {
		return nil, err
	}
	switch {
	case d.cfg.Web.Insecure && u.Scheme == "https":
		d.notices.printf("WARNING: --insecure: the identity of %s is not checked; anybody on the way can read and change all that is sent", u.Host)
	case d.cfg.PasswordFile != "" && u.Scheme == "http":
		d.notices.printf("warning: the password goes to %s unencrypted, and everybody on the way can read it; https encrypts it", u.Host)
	}
	if d.cfg.PasswordFile != "" {
		if o.Password, err = loginOf(l, d.cfg.PasswordFile); err != nil {
			return nil, err
		}
		o.Eager = true
	} else {
		o.Password = func(ctx context.Context, user, host, realm string) (string, string, error) {
			return d.password(ctx, u, user, realm)
		}
	}
	c, err := webclient.New(root, o)
	if err != nil {
		return nil, failure.Usage.Errorf("location %v: %w", l, err)
	}
	return c, nil
}

// TLS returns the TLS configuration that follows from these settings.
func (c *WebConfig) TLS() (*tls.Config, error) {
	t := &tls.Config{InsecureSkipVerify: c.Insecure}
	switch {
	case c.Fingerprint != "" && (c.CACert != "" || c.Insecure):
		return nil, failure.Usage.Errorf("--fingerprint is checked instead of all else; leave out --cacert and --insecure")
	case c.Fingerprint != "":
		return t, pin(t, c.Fingerprint)
	case c.CACert == "":
		return t, nil
	case c.Insecure:
		return nil, failure.Usage.Errorf("--cacert and --insecure: the second checks nothing")
	}
	text, err := readBounded(c.CACert)
	if err != nil {
		return nil, failure.Local.Errorf("--cacert: %w", err)
	}
	t.RootCAs = x509.NewCertPool()
	if !t.RootCAs.AppendCertsFromPEM(text) {
		return nil, failure.Local.Errorf("--cacert %s: there is no certificate in it (PEM, -----BEGIN CERTIFICATE-----)", console.Visible(c.CACert))
	}
	return t, nil
}

// checkPin returns an error if a fingerprint is set but the server has no certificate, because its
// URL begins with http. In the message, `give` stands before "its https URL", and says how to name
// that URL.
func (c *WebConfig) checkPin(server *url.URL, give string) error {
	if c.Fingerprint == "" || server.Scheme != "http" {
		return nil
	}
	return failure.Usage.Errorf("--fingerprint: %s shows no certificate over http, and anybody can be the server; %s its https URL", server.Host, give)
}

// pin sets that connections accept only the certificate with the given fingerprint, whatever its
// names and its issuer are.
func pin(t *tls.Config, fingerprint string) error {
	want, err := hex.DecodeString(strings.ReplaceAll(fingerprint, ":", ""))
	if err != nil || len(want) != sha256.Size {
		return failure.Usage.Errorf("--fingerprint %s: it is a SHA-256, of 64 hexadecimal digits with or without colons", console.Visible(fingerprint))
	}
	t.InsecureSkipVerify = true // safe, because VerifyConnection checks the certificate
	t.VerifyConnection = func(s tls.ConnectionState) error {
		if sum := sha256.Sum256(s.PeerCertificates[0].Raw); !bytes.Equal(sum[:], want) {
			err := fmt.Errorf("its certificate has the SHA-256 fingerprint %x, and --fingerprint wants another; has the server been replaced, or is another one on the way?", sum)
			return &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: err}
		}
		return nil
	}
	return nil
}

// password returns the user and the password for a server: from the netrc file, or by asking the
// user.
func (d webDialer) password(ctx context.Context, u *url.URL, user, realm string) (string, string, error) {
	if u.Scheme == "http" {
		d.notices.printf("warning: %s asks for a password, which goes there unencrypted, and everybody on the way can read it; https encrypts it", u.Host)
	}
	login, password, ok, err := fromNetrc(netrcFile(d.cfg), u.Hostname(), user)
	if err != nil {
		d.notices.printf("warning: %v", err)
	}
	if ok {
		return login, password, nil
	}
	if d.cfg.served {
		return "", "", fmt.Errorf("%w; the netrc file of the user that haul runs as has none for %s", webclient.ErrLogin, u.Hostname())
	}
	if d.cfg.Batch {
		return "", "", fmt.Errorf("%w; leave out --batch to be asked, or use --password-file or ~/.netrc", webclient.ErrLogin)
	}
	if user == "" {
		text := fmt.Sprintf("User for %s: ", u.Host)
		if realm != "" {
			text = fmt.Sprintf("User for %q of %s: ", realm, u.Host)
		}
		if user, err = d.asker.ask(ctx, text, true); err != nil {
			return "", "", cannotAsk(err)
		}
	}
	password, err = d.asker.ask(ctx, fmt.Sprintf("Password of %s@%s: ", console.Visible(user), u.Host), false)
	if err != nil {
		return "", "", cannotAsk(err)
	}
	return user, password, nil
}

// cannotAsk turns the error of a question without an answer into a [webclient.ErrLogin] with
// advice. It leaves the error of a cancelled context unchanged.
func cannotAsk(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, errNoTerminal):
		return noTerminalForWeb{err}
	}
	return fmt.Errorf("%w: %w", webclient.ErrLogin, err)
}

// loginOf returns a function that answers a web server's request for a login with the location's user
// and the password in a file.
func loginOf(l Location, passwordFile string) (func(context.Context, string, string, string) (string, string, error), error) {
	if l.site.user == "" {
		return nil, failure.Usage.Errorf("--password-file: whose password is it? write the user into the URL: https://USER@HOST/PATH")
	}
	password, err := PasswordIn(passwordFile)
	return func(_ context.Context, user, _, _ string) (string, string, error) { return user, password, nil }, err
}

// A noTerminalForWeb reports that a web server needs a login, and there is no terminal to ask on.
type noTerminalForWeb struct{ error }

func (noTerminalForWeb) Error() string {
	return "needs a login, and there is no terminal to ask on: use --password-file or ~/.netrc"
}

// Unwrap returns the kind of the error, and the reason why haul could not ask.
func (e noTerminalForWeb) Unwrap() []error { return []error{webclient.ErrLogin, e.error} }
