package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/web/webclient"
)

// maxSecretFile is how many bytes a file of certificates or of a password may have.
const maxSecretFile = 4 << 20

// webFlags are the flags about web servers.
type webFlags struct {
	cacert   string
	insecure bool
	login    *loginFlags // those of SSH too
}

func (f *webFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.cacert, "cacert", "", "trust the certificates in `FILE` (PEM), and not those of the system")
	flags.BoolVar(&f.insecure, "insecure", false, "do not check the server's certificate: anybody may be the server")
}

// A webs holds the clients of one command, one for each web server and user.
type webs struct {
	flags *webFlags
	asker *asker
	say   func(text string) // prints a message; several goroutines call it
	quiet bool              // prints nothing about tries that succeed in the end
	conns int               // to one server at most; 0 means the usual

	mu   sync.Mutex
	open map[webSite]*webclient.Client // mu
	told map[string]bool               // mu
}

// webs returns an empty set of clients. What package http has to say of servers
// it says by package log, in lines of its own with bytes of the server's; what
// matters of it comes as an error too.
func (f *webFlags) webs(say func(text string), a *asker) *webs {
	log.SetOutput(io.Discard)
	return &webs{flags: f, asker: a, say: say, open: map[webSite]*webclient.Client{}, told: map[string]bool{}}
}

func (w *webs) close() {
	for _, c := range w.open {
		_ = c.Close()
	}
}

// tell prints a line, once.
func (w *webs) tell(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.tellOf(text, text)
}

// tellOf prints a line, if it is the first about something.
func (w *webs) tellOf(what, text string) {
	w.mu.Lock()
	told := w.told[what]
	w.told[what] = true
	w.mu.Unlock()
	if !told {
		w.say(console.VisibleLines(text))
	}
}

// tellWaitFrom is how long a pause is at the least that is told of: shorter ones
// nobody wonders about.
const tellWaitFrom = time.Second

// waiting tells that a server wants to be asked again later, once for each reason.
func (w *webs) waiting(host string, status int, pause time.Duration) {
	if w.quiet || pause < tellWaitFrom {
		return
	}
	w.tellOf(fmt.Sprintf("wait %s %d", host, status), fmt.Sprintf("note: %s answers %d %s; haul waits before it asks again, %v this time",
		host, status, http.StatusText(status), pause.Round(time.Second)))
}

// reconnecting tells that a server is gone, and is waited for, once. A connection that
// is made again soon is not worth a word.
func (w *webs) reconnecting(host string, err error, pause time.Duration) {
	if w.quiet || pause < tellWaitFrom {
		return
	}
	w.tellOf("lost "+host, fmt.Sprintf("note: the connection to %s is lost (%v); haul tries again for some %v, and then resumes",
		host, err, webclient.DefaultAbsenceTimeout))
}

// connect returns the client of a location's server. first is the name that is
// going to be read there first, if that is known. One goroutine at a time may call
// it.
func (w *webs) connect(l location, first string) (*webclient.Client, error) {
	if c := w.open[l.site]; c != nil {
		return c, nil
	}
	u, err := url.Parse(l.site.root)
	if err != nil {
		return nil, failure.Usage.Errorf("location %v: %w", l, err)
	}
	o := webclient.Config{User: l.site.user, Query: l.site.query, First: first, UserAgent: "haul", Conns: w.conns}
	if version != "" {
		o.UserAgent += "/" + version
	}
	o.Waiting = func(status int, pause time.Duration) { w.waiting(u.Host, status, pause) }
	o.Reconnecting = func(err error, pause time.Duration) { w.reconnecting(u.Host, err, pause) }
	if o.TLS, err = w.flags.tls(); err != nil {
		return nil, err
	}
	switch {
	case w.flags.insecure && u.Scheme == "https":
		w.tell("WARNING: --insecure: the identity of %s is not checked; anybody on the way can read and change all that is sent", u.Host)
	case w.flags.login.passwordFile != "" && u.Scheme == "http":
		w.tell("warning: the password goes to %s unencrypted, and everybody on the way can read it; https encrypts it", u.Host)
	}
	if w.flags.login.passwordFile != "" {
		if o.Password, err = w.flags.login.forWeb(l); err != nil {
			return nil, err
		}
		o.Eager = true
	} else {
		o.Password = func(ctx context.Context, user, host, realm string) (string, string, error) {
			return w.password(ctx, u, user, realm)
		}
	}
	c, err := webclient.New(l.site.root, o)
	if err != nil {
		return nil, failure.Usage.Errorf("location %v: %w", l, err)
	}
	w.open[l.site] = c
	return c, nil
}

// tls returns what the flags say of certificates.
func (f *webFlags) tls() (*tls.Config, error) {
	c := &tls.Config{InsecureSkipVerify: f.insecure}
	if f.cacert == "" {
		return c, nil
	}
	if f.insecure {
		return nil, failure.Usage.Errorf("--cacert and --insecure: the second checks nothing")
	}
	text, err := readBounded(f.cacert)
	if err != nil {
		return nil, failure.Local.Errorf("--cacert: %w", err)
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(text) {
		return nil, failure.Local.Errorf("--cacert %s: there is no certificate in it (PEM, -----BEGIN CERTIFICATE-----)", console.Visible(f.cacert))
	}
	return c, nil
}

// readBounded reads a file that is not large.
func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err == nil && len(text) > maxSecretFile {
		err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("more than %d bytes", maxSecretFile)}
	}
	return text, err
}

// password finds the user and the password for a server: in netrc, or from who
// sits at the terminal.
func (w *webs) password(ctx context.Context, u *url.URL, user, realm string) (string, string, error) {
	if u.Scheme == "http" {
		w.tell("warning: %s asks for a password, which goes there unencrypted, and everybody on the way can read it; https encrypts it", u.Host)
	}
	login, password, ok, err := fromNetrc(u.Hostname(), user)
	if err != nil {
		w.tell("warning: %v", err)
	}
	if ok {
		return login, password, nil
	}
	if w.flags.login.batch {
		return "", "", fmt.Errorf("%w; leave out --batch to be asked, or use --password-file or ~/.netrc", webclient.ErrLogin)
	}
	if user == "" {
		text := fmt.Sprintf("User for %s: ", u.Host)
		if realm != "" {
			text = fmt.Sprintf("User for %q of %s: ", realm, u.Host)
		}
		if user, err = w.asker.ask(ctx, text, true); err != nil {
			return "", "", cannotAsk(err)
		}
	}
	password, err = w.asker.ask(ctx, fmt.Sprintf("Password of %s@%s: ", console.Visible(user), u.Host), false)
	if err != nil {
		return "", "", cannotAsk(err)
	}
	return user, password, nil
}

// cannotAsk says what to do where nobody can be asked.
func cannotAsk(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, errNoTerminal):
		return noTerminalForWeb{err}
	}
	return fmt.Errorf("%w: %w", webclient.ErrLogin, err)
}

// fromNetrc looks a host up in the file that NETRC names, or else ~/.netrc.
func fromNetrc(host, user string) (login, password string, ok bool, err error) {
	name := os.Getenv("NETRC")
	if name == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", "", false, nil
		}
		base := ".netrc"
		if runtime.GOOS == "windows" {
			base = "_netrc"
		}
		name = filepath.Join(home, base)
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", false, nil
	}
	if err != nil {
		return "", "", false, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, webclient.MaxNetrc+1))
	if err == nil {
		login, password, ok, err = webclient.Netrc(text, host, user)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return login, password, ok, err
}
