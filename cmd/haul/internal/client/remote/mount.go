package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/openssh"
	"github.com/haul-project/haul/internal/servertext"
	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/s3"
	"github.com/haul-project/haul/web/webclient"
)

// A Mount is a directory of an upstream whose files haul serves. The process that serves it
// connects to the upstream again and again, cannot ask a user, and has dropped its rights.
type Mount struct {
	location Location
	cfg      Config
	notices  *notices
	ssh      openssh.Destination
	bucket   *s3.Store
}

// NewMount finds out how to reach a directory on an SFTP or HTTP server, or a bucket. It reads the
// configuration of ssh or of the AWS tools, but does not connect. Errors are usage errors, or
// report unusable settings.
func NewMount(ctx context.Context, l Location, cfg Config) (*Mount, error) {
	cfg.Batch, cfg.served = true, true
	m := &Mount{location: l, cfg: cfg, notices: newNotices(cfg.Say)}
	switch l.Protocol {
	case HTTP:
		if l.site.query != "" {
			return nil, failure.Usage.Errorf("a source has no query (?...): it would show in lists of processes")
		}
		return m, nil
	case S3:
		return m, m.openBucket()
	case SFTP:
	default:
		return nil, failure.Usage.Errorf("source %v: it is a directory, or a URL of https, sftp or s3", l)
	}
	var err error
	if m.ssh, err = newSSHDialer(&m.cfg, m.notices, nil).resolve(ctx, l); err != nil {
		return nil, failure.Local.Errorf("source %v: %w", l, err)
	}
	m.ssh.BatchMode = true
	if n := m.ssh.Needs(); len(n.Commands) > 0 {
		return nil, failure.Local.Errorf("source %v: its ProxyCommand in ssh_config cannot run, as a server of haul starts no programs; use ProxyJump", l)
	}
	return m, nil
}

// openBucket finds out how to reach the bucket, and sets m.bucket. It does not connect.
func (m *Mount) openBucket() (err error) {
	p := m.cfg.Patience
	m.bucket, err = s3.New(m.location.bucket, m.location.Path, s3.Config{
		Conns: m.cfg.Conns, ConnectTimeout: p.Answer, AnswerTimeout: p.Answer, StallTimeout: p.Stall, UserAgent: m.cfg.UserAgent, Getenv: m.getenv,
		Waiting: func(err error, _ time.Duration) {
			if m.cfg.Again != nil {
				m.cfg.Again(err)
			}
		},
	})
	if err != nil {
		return failure.Usage.Errorf("source %v: %w", m.location, err)
	}
	return nil
}

// getenv returns the value of an environment variable. For HOME it returns the home directory of the
// account, if one is configured.
func (m *Mount) getenv(key string) string {
	if key == "HOME" && m.cfg.Account != nil {
		return m.cfg.Account.HomeDir
	}
	return os.Getenv(key)
}

// bucketNeeds returns the system resources that are needed to connect to a bucket and to get its
// credentials. A cloud machine or a container gets credentials over plain HTTP from a link-local
// address.
func (m *Mount) bucketNeeds() openssh.Needs {
	n := openssh.Needs{Ports: []int{httpPort, httpsPort}}
	endpoint := m.bucket.Endpoint()
	if endpoint.Port() != "" {
		n.Ports = append(n.Ports, portOf(endpoint))
	}
	for _, scheme := range []string{"http", "https"} {
		n.Ports = append(n.Ports, proxyPorts(&url.URL{Scheme: scheme, Host: endpoint.Host})...)
	}
	for _, server := range s3.CredentialServers() {
		if u, err := url.Parse(server); err == nil {
			n.Ports = append(n.Ports, portOf(u))
		}
	}
	n.Files = append(n.Files, s3.CredentialFiles(m.getenv)...)
	return n
}

// Identity returns a string that identifies the directory. It consists of the URL, and of the
// server that the URL means according to the configuration of ssh or of the AWS tools.
func (m *Mount) Identity() string {
	switch m.location.Protocol {
	case SFTP:
		return fmt.Sprintf("%v at %s", m.location, m.ssh.Endpoint())
	case S3:
		return fmt.Sprintf("%v at %s", m.location, m.bucket.Endpoint().Host)
	}
	return m.location.String()
}

// Needs returns the system resources that [Mount.Connect] uses.
func (m *Mount) Needs() openssh.Needs {
	switch m.location.Protocol {
	case SFTP:
		return m.ssh.Needs()
	case S3:
		return m.bucketNeeds()
	}
	u, err := url.Parse(m.location.site.root)
	if err != nil {
		return openssh.Needs{}
	}
	n := openssh.Needs{Ports: []int{portOf(u)}}
	if name := netrcFile(&m.cfg); name != "" {
		n.Files = append(n.Files, name)
	}
	n.Ports = append(n.Ports, proxyPorts(u)...)
	if !slices.Contains(n.Ports, httpsPort) {
		n.Ports = append(n.Ports, httpsPort) // a server often redirects to https on the same host
	}
	for _, host := range m.cfg.Redirects {
		n.Ports = append(n.Ports, portOf(&url.URL{Host: host}))
	}
	return n
}

// RedirectServers parses HOST or HOST:PORT, and returns servers as HOST:PORT. HOST stands for two
// servers, at the ports of http and https.
func RedirectServers(text string) ([]string, error) {
	u, err := url.Parse("http://" + text)
	if err != nil || u.Host != text || u.Hostname() == "" || strings.HasSuffix(text, ":") || strings.Contains(text, "*") {
		return nil, failure.Usage.Errorf("%q is not HOST or HOST:PORT", text)
	}
	host := strings.ToLower(u.Hostname())
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, failure.Usage.Errorf("%q: a port is a number from 1 to 65535", text)
		}
		return []string{net.JoinHostPort(host, port)}, nil
	}
	return []string{net.JoinHostPort(host, strconv.Itoa(httpPort)), net.JoinHostPort(host, strconv.Itoa(httpsPort))}, nil
}

// redirect returns an error unless the server of a mount may redirect to a URL.
func (c *Config) redirect(to *url.URL) error {
	host := servertext.Cut(to.Hostname())
	if port := portOf(to); port != httpPort && port != httpsPort {
		host = net.JoinHostPort(host, strconv.Itoa(port))
	}
	if slices.Contains(c.Redirects, net.JoinHostPort(strings.ToLower(to.Hostname()), strconv.Itoa(portOf(to)))) {
		return nil
	}
	return failure.Text("it redirects to another server, %s; if all clients may get files from there, add %s %s", host, failure.Flag("redirect-to"), host)
}

// proxyPorts returns the port of the proxy for a URL, if there is one.
func proxyPorts(u *url.URL) []int {
	if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u}); err == nil && proxy != nil {
		return []int{portOf(proxy)}
	}
	return nil
}

const (
	httpPort  = 80
	httpsPort = 443
	socksPort = 1080
)

// portOf returns the port in a URL or, without one, the default port of its scheme: http, https or
// socks5.
func portOf(u *url.URL) int {
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		return int(n)
	}
	switch u.Scheme {
	case "https":
		return httpsPort
	case "http":
		return httpPort
	}
	return socksPort
}

// Connect logs in with the keys and passwords that are configured now, and returns the files of the
// directory. Over HTTP, and for a bucket, only the first request makes a connection. The function
// close closes the connection.
func (m *Mount) Connect(ctx context.Context) (files store.Tree, close func(), err error) {
	switch m.location.Protocol {
	case S3:
		return m.bucket, func() { _ = m.bucket.Close() }, nil
	case HTTP:
		root := m.location.site.root + (&url.URL{Path: m.location.Path}).EscapedPath()
		w, err := webDialer{&m.cfg, m.notices, new(asker)}.client(root, m.location, "")
		if err != nil {
			return nil, nil, err
		}
		return w.Tree(), func() { _ = w.Close() }, nil
	}
	d := newSSHDialer(&m.cfg, m.notices, nil)
	s, err := d.connectTo(ctx, m.ssh, m.location, Intent{})
	if err != nil {
		return nil, nil, adviseMount(err)
	}
	dir, err := s.Path(ctx, m.location)
	if err != nil {
		_ = s.Close()
		return nil, nil, err
	}
	return s.Store(dir), func() { _ = s.Close() }, nil
}

// adviseMount adds advice for the administrator to a connection error.
func adviseMount(err error) error {
	e, ok := errors.AsType[*openssh.HostKeyError](err)
	switch {
	case ok && e.Fault == openssh.Unknown:
		return fmt.Errorf("%w; verify the fingerprint with the server's administrator, and add the key to known_hosts, for example by ssh as the user that haul runs as", err)
	case errors.Is(err, openssh.ErrAuth):
		return fmt.Errorf("%w; haul logs in by the keys and the agent that ssh would use as the user that haul runs as, and asks nobody", err)
	}
	return err
}

// IsRefusal reports whether a server was reached but refuses this machine, or is another server
// than expected. Another attempt can succeed only after somebody has changed something.
func IsRefusal(err error) bool {
	return errors.Is(err, openssh.ErrAuth) || errors.Is(err, openssh.ErrHostKey) || errors.Is(err, openssh.ErrConfig) || errors.Is(err, openssh.ErrRefused) ||
		errors.Is(err, webclient.ErrLogin) || errors.Is(err, s3.ErrLogin) || errors.Is(err, s3.ErrNoBucket) || errors.Is(err, s3.ErrEndpoint) || webclient.IsCertificateError(err)
}

// IsAway reports whether an error means that the server cannot be reached, is busy, or refuses this
// machine. It returns false for an error about one file.
func IsAway(err error) bool {
	status, answered := errors.AsType[*webclient.StatusError](err)
	switch {
	case IsRefusal(err), IsNoAnswer(err), errors.Is(err, sftpclient.ErrClosed), errors.Is(err, sftpclient.ErrProtocol):
		return true
	case answered:
		return status.Code == http.StatusTooManyRequests || status.Code == http.StatusBadGateway ||
			status.Code == http.StatusServiceUnavailable || status.Code == http.StatusGatewayTimeout
	}
	return false
}
