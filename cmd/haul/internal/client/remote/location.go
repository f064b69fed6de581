package remote

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/openssh"
	"github.com/haul-project/haul/internal/urlpath"
	"github.com/haul-project/haul/store/s3"
	"github.com/haul-project/haul/tftp/tftpclient"
)

// A Protocol is the protocol by which a location is reached.
type Protocol int

// These are the protocols. A file of this machine has the protocol Local.
const (
	Local Protocol = iota // a file of this machine
	TFTP
	SFTP
	HTTP // and HTTPS
	S3
)

// WithTrees returns the names of the protocols for which there is a [Server].
func WithTrees() []string { return []string{SFTP.String(), HTTP.String(), S3.String()} }

// String returns the protocol's name.
func (p Protocol) String() string {
	switch p {
	case TFTP:
		return "TFTP"
	case SFTP:
		return "SFTP"
	case HTTP:
		return "HTTP"
	case S3:
		return "S3"
	}
	return "local files"
}

// A Location says where files are: the protocol, the server, and a name or a pattern. It is parsed
// from an argument of the command line.
type Location struct {
	Text     string // the location as the user typed it
	Protocol Protocol

	server openssh.Target // for SFTP: the user, the host and the port
	site   webSite        // for HTTP: the server, the user and the query
	bucket string         // for S3: the name of the bucket

	// Path is the name of a local file or of a file on the server. On an SFTP server it is
	// absolute, or relative to the home directory, which itself is "". If it begins with a tilde
	// and a user's name, it is below that user's home directory. On a web server it is relative to
	// the root. In a bucket it is the key, without a leading slash. For TFTP only Text is set.
	Path string
}

// IsRemote reports whether the location is on a server.
func (l Location) IsRemote() bool { return l.Protocol != Local }

// Origin returns a string that identifies the server of the location, and the user on the server.
func (l Location) Origin() string {
	return fmt.Sprintf("%v %q %q %q", l.Protocol, l.server, l.site, l.bucket)
}

// String returns the location as typed, made safe to print.
func (l Location) String() string { return console.Visible(l.Text) }

// Parse parses a location: a URL of SFTP, HTTP, S3 or TFTP, scp's host:path, or else the path of a
// local file. Errors are usage errors.
func Parse(s string) (Location, error) {
	l := Location{Text: s, Path: s}
	scheme, rest, isURL := cutScheme(s)
	host, path, isHost := cutHost(s)
	var err error
	switch {
	case s == "":
		return l, failure.Usage.Errorf("a location is empty; . is the current directory, and HOST: a home directory")
	case strings.IndexByte(s, 0) >= 0:
		err = errors.New("a name cannot hold a NUL")
	case isURL:
		err = l.parseURL(scheme, rest)
	case isHost && isScheme(host) && strings.HasPrefix(path, "/"):
		err = fmt.Errorf("write %s:/%s for a URL, and sftp://%s%s for the file %s on a host named %s", host, path, host, path, path, host)
	case isHost:
		l.Protocol = SFTP
		if port, _, ok := strings.Cut(path, "/"); ok && isPort(port) {
			err = fmt.Errorf("is %s a port? write tftp://%s or sftp://%s; for a directory of that name, %s:./%s", port, s, s, host, path)
			break
		}
		l.server, err = parseServer(host)
		l.Path = path
		if below, ok := cutHome(path); ok {
			l.Path = below
		}
	}
	switch {
	case err == errPassword || err == errWebPassword || err == errColon || err == errKeysInURL:
		return l, failure.Usage.Wrap(err)
	case err != nil && urlpath.MayHoldPassword(s):
		what := "a location (sftp://HOST:PORT/PATH, or HOST:PATH)"
		if isURL {
			what = fmt.Sprintf("a %s URL", console.Visible(scheme))
		}
		return l, failure.Usage.Errorf("%s: it has a mistake, and is not shown, since it may hold a password, which does not belong there", what)
	case err != nil:
		return l, failure.Usage.Errorf("location %q: %w", s, err)
	}
	return l, nil
}

// parseURL parses the part of a URL after the scheme.
func (l *Location) parseURL(scheme, rest string) (err error) {
	l.Protocol = schemes[scheme]
	switch l.Protocol {
	case TFTP:
		if _, err = tftpclient.ParseURL(l.Text); !urlpath.MayHoldPassword(rest) {
			err = nil // ParseTFTP reports the error later; its message may show the URL, which contains no password
		}
	case SFTP:
		l.server, l.Path, err = parseSFTP(rest)
	case HTTP:
		l.site, l.Path, err = parseHTTP(scheme, rest)
	case S3:
		if bucket, _, _ := strings.Cut(rest, "/"); strings.Contains(bucket, "@") {
			return errKeysInURL
		}
		l.bucket, l.Path, err = s3.ParseURL(scheme + "://" + rest)
	default:
		err = fmt.Errorf("haul does not speak %s; it reads sftp://HOST/PATH, https://HOST/PATH, s3://BUCKET/KEY and tftp://HOST/NAME, and a local file is ./%s", console.Visible(scheme), console.Visible(l.Text))
	}
	return err
}

// errKeysInURL reports that an S3 URL contains more than the bucket before the path, possibly keys.
// Messages must not show such a URL.
var errKeysInURL = errors.New("keys do not belong in a URL, where others can see them; AWS_PROFILE names those of a file")

// cutScheme splits a URL at its "://". The scheme is returned in lower case.
func cutScheme(s string) (scheme, rest string, ok bool) {
	scheme, rest, ok = strings.Cut(s, "://")
	if !ok || scheme == "" {
		return "", "", false
	}
	const letters, others = "abcdefghijklmnopqrstuvwxyz", "0123456789+-." // RFC 3986, section 3.1
	for i, c := range []byte(strings.ToLower(scheme)) {
		if strings.IndexByte(letters, c) < 0 && (i == 0 || strings.IndexByte(others, c) < 0) {
			return "", "", false
		}
	}
	return strings.ToLower(scheme), rest, true
}

// schemes maps the schemes of supported URLs to their protocols.
var schemes = map[string]Protocol{"tftp": TFTP, "sftp": SFTP, "http": HTTP, "https": HTTP, "s3": S3}

// isScheme reports whether a word is the scheme of a supported URL.
func isScheme(s string) bool { return schemes[strings.ToLower(s)] != Local }

// cutHost splits host:path at the first colon, as scp does. It returns false if the colon is the
// first character or comes after a slash. An IPv6 address must be in brackets.
func cutHost(s string) (host, path string, ok bool) {
	if runtime.GOOS == "windows" && filepath.VolumeName(s) != "" {
		return "", "", false // the colon belongs to a drive letter
	}
	begin := 0
	if open := strings.IndexByte(s, '['); open == 0 || open > 0 && s[open-1] == '@' {
		end := strings.Index(s, "]:")
		if end < 0 || strings.IndexByte(s[:end], '/') >= 0 {
			return "", "", false
		}
		begin = end
	}
	host, path, ok = strings.Cut(s[begin:], ":")
	if host = s[:begin] + host; !ok || host == "" || strings.IndexByte(host, '/') >= 0 {
		return "", "", false
	}
	return host, path, true
}

// ParseAll parses several locations.
func ParseAll(words []string) ([]Location, error) {
	list := make([]Location, 0, len(words))
	for _, w := range words {
		l, err := Parse(w)
		if err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	return list, nil
}

// webName returns the location's name on a web server or in a bucket, or "." for the root.
func (l Location) webName() string {
	if name := path.Clean("/" + l.Path)[1:]; name != "" {
		return name
	}
	return "."
}

// IsDirName reports whether the text of a location shows that it is a directory: the path is empty,
// or ends in a slash or in the name ".".
func (l Location) IsDirName() bool {
	return l.Path == "" || strings.HasSuffix(l.Path, "/") || strings.HasSuffix("/"+l.Path, "/.")
}

// PlainName returns the location's name on the server, if the text alone determines the name. It
// returns "" if only requests to the server can find it out.
func (l Location) PlainName() string {
	clean := path.Clean(l.Path)
	switch {
	case l.Protocol == HTTP && !l.IsDirName():
		return l.webName()
	case l.Path == "" || strings.HasPrefix(l.Path, "~") || strings.HasSuffix(l.Path, "/"):
		return ""
	case clean == "/" || clean == "." || clean == ".." || strings.HasPrefix(clean, "../"):
		return ""
	}
	return clean
}

// IsURL reports whether the location was typed as a URL.
func (l Location) IsURL() bool {
	_, _, is := cutScheme(l.Text)
	return is
}

// At returns the location of another file on the same server, as a user could type it. name is the
// file's name in the server's tree.
func (l Location) At(name string) string {
	scheme, rest, isURL := cutScheme(l.Text)
	if !isURL {
		host, _, _ := cutHost(l.Text)
		if strings.HasPrefix(l.Path, "/") {
			return host + ":/" + name
		}
		return host + ":" + name
	}
	authority, _, _ := strings.Cut(rest, "/")
	authority, _, _ = strings.Cut(authority, "?")
	root := scheme + "://" + authority + "/"
	if l.Protocol == SFTP && !strings.HasPrefix(l.Path, "/") {
		root += "~/"
	}
	return root + (&url.URL{Path: name}).EscapedPath()
}
