// Package source provides an upstream of "haul serve" as a store: the directory of a web server or
// of an SFTP server, or the objects below a prefix of a bucket.
//
// A [Source] is a [store.Tree]. It connects when it is first needed, and again after the connection
// is lost. Operations that its server does not support fail with errors.ErrUnsupported. Each call
// has a time limit, however the server behaves. If the upstream cannot be reached, calls fail with
// [store.ErrUnavailable], and the log and [Source.Stats] show that.
//
// Keys and passwords come from the places where ssh, curl and the AWS tools look for them, and are
// read again each time they are needed. The package never prompts for them, and never logs them.
package source

import (
	"cmp"
	"context"
	"log/slog"
	"os/user"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/cache"
)

// These constants limit how long haul waits for an upstream, and how many connections it makes.
const (
	callTime  = 10 * time.Second // how long a call may take, including the login and the wait for other calls
	stallTime = 10 * time.Second // how long the next byte of a file may take to arrive
	awayTime  = 20 * time.Second // how long a running transfer waits for an unreachable web server

	// maxConns is how many HTTP connections an upstream may have. An open file holds one until it
	// has been read completely.
	maxConns = 512
)

// A Config says how upstreams are reached.
type Config struct {
	// Account is the user whose keys and passwords are used; nil means the user that runs this
	// program.
	Account *user.User

	// Say writes a line to the log. It must not block.
	Say func(level slog.Level, text string, attrs ...slog.Attr)

	Cache *cache.Cache // keeps data that was read from the upstream; nil means that there is no cache

	Redirects []string // servers to which web servers may redirect: see CheckRedirects

	wait time.Duration // how long a call may take; 0 means callTime
}

// scheme matches the beginning of a URL (RFC 3986, section 3.1).
var scheme = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9+.-]*)://`)

// schemeOf returns the scheme of a URL in lower case, or "" for the path of a directory.
func schemeOf(text string) string {
	if m := scheme.FindStringSubmatch(text); m != nil {
		return strings.ToLower(m[1])
	}
	return ""
}

// IsRemote reports whether a string is a URL rather than the path of a directory.
func IsRemote(text string) bool { return schemeOf(text) != "" }

// Overlap reports whether two strings are URLs and one of them is below the other.
func Overlap(a, b string) bool {
	if !IsRemote(a) || !IsRemote(b) {
		return false
	}
	a, b = strings.TrimSuffix(a, "/")+"/", strings.TrimSuffix(b, "/")+"/"
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}

// Check returns a usage error for a URL that does not name an upstream. It opens nothing.
func Check(text string) error {
	_, err := parse(text)
	return err
}

func parse(text string) (remote.Location, error) {
	authority, _, _ := strings.Cut(scheme.ReplaceAllString(text, ""), "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 && strings.Contains(authority[:at], ":") {
		// Do not repeat the URL, because it contains the password.
		return remote.Location{}, failure.Usage.Errorf("a password does not belong in the URL of a source, where others can see it: use a key for sftp://, and ~/.netrc for https://")
	}
	if !slices.Contains([]string{"http", "https", "sftp", "s3"}, schemeOf(text)) {
		return remote.Location{}, failure.Usage.Errorf("source %q: haul serves a directory, https://HOST/DIR/, http://HOST/DIR/, sftp://[USER@]HOST/DIR or s3://BUCKET/PREFIX", text)
	}
	return remote.Parse(text)
}

// CheckRedirects checks the setting that lists the servers to which upstreams may redirect. Each is
// HOST:PORT, or HOST for the ports of http and https. web says whether an upstream is a web server;
// if none is, the list must be empty.
func CheckRedirects(names []string, web bool) error {
	const redirect = failure.Flag("redirect-to")
	if len(names) > 0 && !web {
		return failure.Mistake(redirect, "%s needs sources such as https://HOST/DIR/; add one, or leave %s out", redirect, redirect)
	}
	if _, err := redirects(names); err != nil {
		return failure.Mistake(redirect, "%s: %w", redirect, err)
	}
	return nil
}

// redirects converts the servers of that setting to HOST:PORT.
func redirects(names []string) (all []string, err error) {
	for _, name := range names {
		servers, err := remote.RedirectServers(name)
		if err != nil {
			return nil, err
		}
		all = append(all, servers...)
	}
	return all, nil
}

// IsWeb reports whether a string is the URL of a web server.
func IsWeb(text string) bool { return schemeOf(text) == "http" || schemeOf(text) == "https" }

// A Source is an upstream: a tree of files on another machine. Any goroutine may use it.
type Source struct {
	store.Tree // the files of the upstream, with the cache in front; has all capabilities of the server

	text  string
	link  *link
	needs Needs
	place string // identifies the upstream; no other upstream has the same string
}

// Capabilities returns the capabilities of the tree.
func (s *Source) Capabilities() store.Capabilities { return store.CapabilitiesOf(s.Tree) }

// Open returns the source that a URL names. It reads the configuration of ssh and of other tools,
// but does not connect, so that a file server can start while its upstream is unreachable. An error
// is a usage error, or names the part of a configuration that cannot be used.
func Open(ctx context.Context, text string, cfg Config) (*Source, error) {
	l, err := parse(text)
	if err != nil {
		return nil, err
	}
	s := &Source{text: text, link: newLink(text, cmp.Or(cfg.wait, callTime), cfg.Say)}
	if err := s.mount(ctx, l, cfg); err != nil {
		return nil, err
	}
	files := &tree{link: s.link}
	s.Tree = files
	if cfg.Cache != nil {
		s.Tree = cfg.Cache.Store(s.place, files).(store.Tree)
	}
	return s, nil
}

// mount finds out from the configuration how to reach the upstream. It does not connect.
func (s *Source) mount(ctx context.Context, l remote.Location, cfg Config) error {
	servers, err := redirects(cfg.Redirects)
	if err != nil {
		return err
	}
	m, err := remote.NewMount(ctx, l, remote.Config{
		Redirects: servers,
		Account:   cfg.Account, Conns: maxConns, UserAgent: "haul",
		Say:      func(text string) { s.link.say(slog.LevelInfo, "source", slog.String("note", text)) },
		Again:    s.link.again,
		Patience: remote.Patience{Answer: s.link.wait, Stall: min(s.link.wait, stallTime), Away: awayTime},
	})
	if err != nil {
		return err
	}
	s.needs, s.place = needsOf(m.Needs()), m.Identity()
	switch l.Protocol {
	case remote.SFTP:
		s.link.connect = func(ctx context.Context) (store.Tree, func(), error) { return connectSFTP(ctx, m) }
		s.link.renews, s.link.reopens = remote.IsAway, true
	case remote.HTTP:
		s.link.connect = m.Connect
		// After a refusal, make a new connection: it reads the password again, which may have changed.
		s.link.renews = remote.IsRefusal
	default: // for a bucket, the store itself reconnects and renews the keys
		s.link.connect = m.Connect
		s.link.renews = func(error) bool { return false }
	}
	return nil
}

// String returns the URL of the source. The URL contains no secret.
func (s *Source) String() string { return s.text }

// Needs returns the system resources that a confined process needs for the source.
func (s *Source) Needs() Needs { return s.needs }

// Probe lists the root of the upstream, so that the log shows early whether the upstream can be
// reached.
func (s *Source) Probe(ctx context.Context) {
	switch _, err := (&tree{link: s.link}).ReadDir(ctx, "."); {
	case err == nil:
		s.link.say(slog.LevelInfo, "source: connected")
	case ctx.Err() == nil && !isFault(err): // this is not a fault, which the link would have logged itself
		s.link.say(slog.LevelInfo, "source: connected; its directory cannot be listed", slog.String("error", err.Error()))
	}
}

// Close closes the connections. Reads of open files then fail.
func (s *Source) Close() { s.link.close() }

// Stats returns the counters.
func (s *Source) Stats() Stats { return s.link.stats() }
