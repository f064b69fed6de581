// Package top shows on a terminal what a haul server is doing. It reads the JSON of the server's
// status page, which docs/status.md describes.
package top

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/status"
)

const (
	// answerTime is how long haul waits for a server's answer, and maxAnswer is the maximum size of
	// the answer, in bytes.
	answerTime = 10 * time.Second
	maxAnswer  = 16 << 20

	// maxTransfers is the maximum number of transfers that haul requests.
	maxTransfers = 200
)

// DefaultURL is the default URL of a server's status page.
const DefaultURL = "http://127.0.0.1:9070"

// A Config says which server to show, and where.
type Config struct {
	URL    string       // URL of the status page; "" means DefaultURL
	Client *http.Client // nil means http.DefaultClient
	Every  time.Duration
	Out    io.Writer

	// Password returns the password for the user in the URL. It is called at most once.
	Password func(ctx context.Context, user, host string) (string, error)
}

// A top fetches the state of a server.
type top struct {
	Config
	base           *url.URL
	user, password string
}

// Run shows the state of the server, again and again until ctx ends. If lines cannot be redrawn,
// because there is no terminal or NO_COLOR is set, Run shows the state only once. If the first
// request fails, Run returns an error; later it retries failed requests.
func Run(ctx context.Context, c Config) error {
	t, err := newTop(ctx, c)
	if err != nil {
		return err
	}
	s, err := t.look(ctx)
	if err != nil {
		return err
	}
	screen := console.NewScreen(c.Out, true)
	if !screen.ManyLines() {
		_, err := fmt.Fprintln(c.Out, strings.Join(s.lines(console.Canvas{Columns: plainColumns, Rows: plainRows}), "\n"))
		return failure.Local.Wrap(err)
	}
	defer screen.Clear()
	tick := time.NewTicker(t.Every)
	defer tick.Stop()
	for {
		screen.Draw(s.lines)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		switch now, err := t.look(ctx); {
		case err == nil:
			s = now
		case ctx.Err() == nil:
			s.lost = err.Error()
		}
	}
}

func newTop(ctx context.Context, c Config) (*top, error) {
	if c.URL == "" {
		c.URL = DefaultURL
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, failure.Usage.Errorf("%s: it is the URL of a status page, such as %s", console.Visible(c.URL), DefaultURL)
	}
	// Do not follow redirects. A status page never sends one, and following it could send the
	// password to another server.
	client := *cmp.Or(c.Client, http.DefaultClient)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.Client = &client
	t := &top{Config: c, base: u}
	if u.User != nil {
		if _, ok := u.User.Password(); ok {
			return nil, failure.Usage.Errorf("the URL has a password, which others can see in the list of processes; leave it out to be asked, or use --password-file FILE")
		}
		t.user = u.User.Username()
		if u.Scheme != "https" && !status.Loopback(net.JoinHostPort(u.Hostname(), "")) {
			return nil, failure.Usage.Errorf("%s: all on the way could read the password; a status page with users is at https://%s", console.Visible(c.URL), console.Visible(u.Host))
		}
		if t.password, err = c.Password(ctx, t.user, u.Host); err != nil {
			return nil, err
		}
		u.User = nil
	}
	return t, nil
}

// look fetches the state of the server.
func (t *top) look(ctx context.Context) (s state, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	for _, one := range []struct {
		path string
		into any
	}{{"info", &s.info}, {fmt.Sprint("transfers?limit=", maxTransfers), &s.transfers}, {"failures", &s.failures}, {"machines", &s.machines}} {
		if err := t.get(ctx, one.path, one.into); err != nil {
			return s, err
		}
		if s.info.Started.IsZero() {
			return s, failure.Remote.Errorf("%v: that is no status page of haul: its JSON says nothing of a server", t.base)
		}
	}
	return s, nil
}

// get fetches the JSON document at a path of the status API, and decodes it into the variable that
// `into` points to.
func (t *top) get(ctx context.Context, path string, into any) error {
	name, query, _ := strings.Cut(path, "?")
	u := t.base.JoinPath("api/v1", name)
	u.RawQuery = query
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return failure.Usage.Wrap(err)
	}
	if t.user != "" {
		q.SetBasicAuth(t.user, t.password)
	}
	a, err := t.Client.Do(q)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return failure.Dial.Errorf("%s: %w; haul serve --status ADDRESS has a status page there", t.base.Host, err)
	}
	defer a.Body.Close()
	body := io.LimitReader(a.Body, maxAnswer)
	switch a.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return failure.Dial.Errorf("%s: it needs another name or password; the URL names the user: https://USER@HOST:PORT", t.base.Host)
	default:
		text, _ := io.ReadAll(io.LimitReader(body, 200)) // if reading fails, the message contains what was read
		return failure.Remote.Errorf("%s: %s: %s", t.base.Host, console.Visible(a.Status), console.Visible(strings.TrimSpace(string(text))))
	}
	if err := json.NewDecoder(body).Decode(into); err != nil {
		return failure.Remote.Errorf("%v: that is no status page of haul: %w", u, err)
	}
	return nil
}

// A state is the last known state of a server.
type state struct {
	info      status.Info
	transfers status.Transfers
	failures  status.Failures
	machines  status.Machines
	lost      string // why the last request failed; "" if it succeeded
}
