// Package source turns what "haul serve" is to serve into a store: the directory of a web
// server, of an SFTP server, or what is below a prefix of a bucket.
//
// A [Source] is a [store.Tree]. It connects when it is first needed, and again when the
// connection is lost. An operation that its server lacks is errors.ErrUnsupported, and
// says so. No call lasts longer than its bound, however the server behaves; what cannot be
// reached is [store.ErrUnavailable], and shows in the log and in [Source.Stats].
//
// Keys and passwords come from where ssh, curl and the tools of AWS look for them, and are
// read again when they are needed. Nobody is asked for any, and none is logged.
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

// Bounds of what a source waits for.
const (
	callTime  = 10 * time.Second // for an answer, with the login and the wait for a place
	stallTime = 10 * time.Second // for the next byte of a file
	awayTime  = 20 * time.Second // a transfer that is under way waits for a web server to be back

	// maxCalls is how many calls of one source wait for its server at a time; others wait
	// for a place. maxConns is how many connections of HTTP a source has: each file that is
	// open holds one until all of it has been read.
	maxCalls = 256
	maxConns = 512
)

// A Config says how sources are reached.
type Config struct {
	// Account is the user whose keys and passwords are used; nil is the one that runs
	// this program.
	Account *user.User

	// Say writes a line of the log. It does not wait.
	Say func(level slog.Level, text string, attrs ...slog.Attr)

	Cache *cache.Cache // keeps what was read; nil for none

	wait time.Duration // what a call may take; 0 means callTime
}

// scheme matches the beginning of a URL (RFC 3986, section 3.1).
var scheme = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9+.-]*)://`)

// schemeOf returns the scheme of a URL in lower case; "" for the path of a directory.
func schemeOf(text string) string {
	if m := scheme.FindStringSubmatch(text); m != nil {
		return strings.ToLower(m[1])
	}
	return ""
}

// IsRemote reports whether a text is a URL, and not the path of a directory.
func IsRemote(text string) bool { return schemeOf(text) != "" }

// Overlap reports whether two texts are URLs, one of which is below the other.
func Overlap(a, b string) bool {
	if !IsRemote(a) || !IsRemote(b) {
		return false
	}
	a, b = strings.TrimSuffix(a, "/")+"/", strings.TrimSuffix(b, "/")+"/"
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}

// Check returns a usage error for a URL that names no source. It opens nothing.
func Check(text string) error {
	_, err := parse(text)
	return err
}

func parse(text string) (remote.Location, error) {
	authority, _, _ := strings.Cut(scheme.ReplaceAllString(text, ""), "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 && strings.Contains(authority[:at], ":") {
		// The URL is not shown.
		return remote.Location{}, failure.Usage.Errorf("a password does not belong in the URL of a source, where others can see it: use a key for sftp://, and ~/.netrc for https://")
	}
	if !slices.Contains([]string{"http", "https", "sftp", "s3"}, schemeOf(text)) {
		return remote.Location{}, failure.Usage.Errorf("source %q: haul serves a directory, https://HOST/DIR/, http://HOST/DIR/, sftp://[USER@]HOST/DIR or s3://BUCKET/PREFIX", text)
	}
	return remote.Parse(text)
}

// A Source is a tree of files on another machine. Any goroutine may use it.
type Source struct {
	store.Tree // all that its server can do, with the cache in front

	text  string
	link  *link
	needs Needs
	place string // what no other source has
}

// Capabilities returns those of the tree.
func (s *Source) Capabilities() store.Capabilities { return store.CapabilitiesOf(s.Tree) }

// Open returns the source that a URL names. It reads what ssh and others are configured
// to do, and connects to nothing: a server of files starts while its source is away.
// Errors are usage errors, or say what of a configuration cannot be used.
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

// mount finds out how to reach the source.
func (s *Source) mount(ctx context.Context, l remote.Location, cfg Config) error {
	m, err := remote.NewMount(ctx, l, remote.Config{
		Account: cfg.Account, Conns: maxConns, UserAgent: "haul",
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
		s.link.renews = remote.IsRefusal // with another password
	default: // a bucket, whose store connects again, and renews its keys
		s.link.connect = m.Connect
		s.link.renews = func(error) bool { return false }
	}
	return nil
}

// String returns the URL of the source, which holds no secret.
func (s *Source) String() string { return s.text }

// Needs returns what the source takes from the system of a process that is confined.
func (s *Source) Needs() Needs { return s.needs }

// Probe asks the source for its root, so that the log says soon whether it can be reached.
func (s *Source) Probe(ctx context.Context) {
	switch _, err := (&tree{link: s.link}).ReadDir(ctx, "."); {
	case err == nil:
		s.link.say(slog.LevelInfo, "source: connected")
	case ctx.Err() == nil && !isFault(err): // which is logged
		s.link.say(slog.LevelInfo, "source: connected; its directory cannot be listed", slog.String("error", err.Error()))
	}
}

// Close ends the connections. Files that are open fail then.
func (s *Source) Close() { s.link.close() }

// Stats are counters of a source since it was opened, and its state.
type Stats struct {
	Calls    uint64 // requests for files, directories and descriptions that were answered, or failed
	Failures uint64 // of them, and of reads, those that failed because of the server or the way to it
	Again    uint64 // requests over HTTP and to buckets that were sent again: the server had no time, or a connection was lost
	Connects uint64 // connections made, of SFTP
	Read     uint64 // bytes of files
	Away     bool   // the last call has failed so
}

// Stats returns the counters.
func (s *Source) Stats() Stats { return s.link.stats() }
