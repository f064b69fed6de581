package main

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/openssh"
)

// A protocol is how a location is reached.
type protocol int

const (
	ofLocal protocol = iota // a file of this machine
	ofTFTP
	ofSFTP
	ofHTTP // and HTTPS
)

// String returns the protocol's name.
func (p protocol) String() string {
	switch p {
	case ofTFTP:
		return "TFTP"
	case ofSFTP:
		return "SFTP"
	case ofHTTP:
		return "HTTP"
	}
	return "local files"
}

// A location is where files are, as the command line says it.
type location struct {
	text     string // as it was typed
	protocol protocol

	// Of SFTP:
	server openssh.Target

	// Of HTTP:
	site webSite

	// path is the name of a local file, or that on the SFTP server: absolute,
	// or below the home directory, which itself is "". Beginning with a tilde
	// and a user's name, it is below theirs. On a web server it is below the root,
	// without a slash in front. For TFTP there is text alone.
	path string
}

// remote reports whether it is on a server.
func (l location) remote() bool { return l.protocol != ofLocal }

// origin tells its server and user from others.
func (l location) origin() string {
	if l.protocol == ofHTTP {
		return fmt.Sprintf("%q", l.site)
	}
	return fmt.Sprintf("%q", l.server)
}

// String returns what was typed, safe to print.
func (l location) String() string { return console.Visible(l.text) }

// parseLocation reads a location: a URL of SFTP, HTTP or TFTP, host:path as scp has
// it, or else the path of a local file. Errors are usage errors.
func parseLocation(s string) (location, error) {
	l := location{text: s, path: s}
	scheme, rest, isURL := cutScheme(s)
	host, path, isHost := cutHost(s)
	var err error
	switch {
	case s == "":
		return l, failure.Usage.Errorf("a location is empty; . is the current directory, and HOST: a home directory")
	case strings.IndexByte(s, 0) >= 0:
		return l, failure.Usage.Errorf("location %q: a name cannot hold a NUL", s)
	case isURL && scheme == "tftp":
		l.protocol = ofTFTP
		return l, nil
	case isURL && scheme == "sftp":
		l.protocol = ofSFTP
		l.server, l.path, err = parseSFTP(rest)
	case isURL && (scheme == "http" || scheme == "https"):
		l.protocol = ofHTTP
		l.site, l.path, err = parseHTTP(scheme, rest)
	case isURL:
		err = fmt.Errorf("haul does not speak %s; it reads sftp://HOST/PATH, https://HOST/PATH and tftp://HOST/NAME, and a local file is ./%s", console.Visible(scheme), console.Visible(s))
	case isHost && isScheme(host) && strings.HasPrefix(path, "/"):
		err = fmt.Errorf("a URL has two slashes, %s:/%s; that file of a host named %s is sftp://%s%s", host, path, host, host, path)
	case isHost:
		l.protocol = ofSFTP
		if port, _, ok := strings.Cut(path, "/"); ok && isPort(port) {
			return l, failure.Usage.Errorf("location %q: is %s a port? write tftp://%s or sftp://%s; for a directory of that name, %s:./%s", s, port, s, s, host, path)
		}
		l.server, err = parseServer(host)
		l.path = path
		if below, ok := cutHome(path); ok {
			l.path = below
		}
	}
	if err == errPassword || err == errWebPassword {
		return l, failure.Usage.Wrap(err)
	}
	if err != nil {
		return l, failure.Usage.Errorf("location %q: %w", s, err)
	}
	return l, nil
}

// errPassword says that there is a password in a URL, of SFTP, and errWebPassword that
// there is one in a URL of HTTP. The URL is not shown.
var (
	errPassword    = errors.New("a password does not belong in a URL, where others can see it; haul asks for it, or use --password-file or a key")
	errWebPassword = errors.New("a password does not belong in a URL, where others can see it; haul asks for it, or ~/.netrc or --password-file has it")
)

// cutScheme splits a URL behind its "://". The scheme comes in lower case.
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

// isScheme reports whether a word is the scheme of URLs that haul reads.
func isScheme(s string) bool {
	return slices.Contains([]string{"sftp", "http", "https", "tftp"}, strings.ToLower(s))
}

// cutHost splits host:path where scp would: at the first colon, unless a slash
// comes before it, or nothing. An address of IPv6 is in brackets.
func cutHost(s string) (host, path string, ok bool) {
	if runtime.GOOS == "windows" && filepath.VolumeName(s) != "" {
		return "", "", false // a drive
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

// isPort reports whether a word is the number of a port.
func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// parseServer reads the [user@]host of host:path.
func parseServer(s string) (openssh.Target, error) {
	host := s[strings.LastIndexByte(s, '@')+1:]
	if inside, ok := strings.CutPrefix(host, "["); ok {
		inside = strings.TrimSuffix(inside, "]")
		if a, err := netip.ParseAddr(inside); err != nil || !a.Is6() {
			return openssh.Target{}, fmt.Errorf("[%s] is no IPv6 address; a port goes into a URL, or -P", console.Visible(inside))
		}
	}
	return openssh.ParseTarget(s)
}

// parseSFTP reads what follows the scheme of an sftp URL:
// [user@]host[:port][/path], by draft-ietf-secsh-scp-sftp-ssh-uri-04. The path
// is absolute, unless it begins with /~/, as in the URLs of curl; without a path
// it is the home directory.
func parseSFTP(s string) (t openssh.Target, path string, err error) {
	authority, path := s, ""
	if slash := strings.IndexByte(s, '/'); slash >= 0 {
		authority, path = s[:slash], s[slash:]
	}
	if strings.ContainsAny(s, "?#") {
		return t, "", fmt.Errorf("a ? or # in a name is written %%3F or %%23")
	}
	user, host := "", authority
	at := strings.LastIndexByte(authority, '@')
	if at >= 0 {
		user, host = authority[:at], authority[at+1:]
	}
	switch {
	case strings.Contains(user, ";"):
		return t, "", fmt.Errorf("a fingerprint or other parameter is not read from a URL; known_hosts says which host key is right")
	case strings.Contains(user, ":"):
		return t, "", errPassword
	case at == 0:
		return t, "", fmt.Errorf("the user is empty")
	}
	if user, err = url.PathUnescape(user); err != nil {
		return t, "", err
	}
	if strings.HasPrefix(host, "[") {
		host = strings.ReplaceAll(host, "%25", "%") // of a zone, by RFC 6874
		inside, _, _ := strings.Cut(host[1:], "]")
		if a, err := netip.ParseAddr(inside); err != nil || !a.Is6() {
			return t, "", fmt.Errorf("[%s] is no IPv6 address", console.Visible(inside))
		}
	} else if strings.Count(host, ":") > 1 {
		return t, "", fmt.Errorf("an IPv6 address goes into brackets: [%s]", console.Visible(host))
	} else if strings.HasSuffix(host, ":") {
		host = host[:len(host)-1] // an empty port is none: RFC 3986, section 6.2.3
	}
	if user != "" {
		host = user + "@" + host
	}
	if t, err = openssh.ParseTarget(host); err != nil {
		return t, "", err
	}
	if path, err = url.PathUnescape(path); err != nil {
		return t, "", err
	}
	if strings.IndexByte(path, 0) >= 0 {
		return t, "", fmt.Errorf("a name cannot hold a NUL")
	}
	if below, ok := cutHome(strings.TrimPrefix(path, "/")); ok {
		path = below
	}
	return t, path, nil
}

// cutHome returns what of a path is below the home directory, if it begins with
// a tilde that says so. What is there is relative, and slashes more than one are
// one.
func cutHome(path string) (below string, ok bool) {
	if path == "~" {
		return "", true
	}
	if below, ok = strings.CutPrefix(path, "~/"); !ok {
		return "", false
	}
	if below = strings.TrimLeft(below, "/"); strings.HasPrefix(below, "~") {
		below = "./" + below // which is no user's home
	}
	return below, true
}

// parseLocations reads several.
func parseLocations(words []string) ([]location, error) {
	list := make([]location, 0, len(words))
	for _, w := range words {
		l, err := parseLocation(w)
		if err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	return list, nil
}
