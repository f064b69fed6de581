package openssh

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

// defaultPort is the port of SSH.
const defaultPort = 22

// A Target is a destination as the user typed it.
type Target struct {
	User string // empty if not given
	Host string // a name, an address without brackets, or an alias
	Port int    // 0 if not given
}

// ParseTarget reads [user@]host[:port], where an IPv6 address with a port is in brackets, or a URL
// ssh://[user@]host[:port]. The user ends at the last "@". ParseTarget refuses names with
// characters that have a meaning to a shell, because the names may become part of commands in the
// configuration. Errors wrap [ErrConfig].
func ParseTarget(s string) (Target, error) {
	t, err := parseTarget(s)
	if err == nil {
		err = t.check()
	}
	if err != nil {
		return Target{}, configErrorf("destination %q: %w", printable(s), err)
	}
	return t, nil
}

func parseTarget(s string) (t Target, err error) {
	isURL := false
	for _, scheme := range []string{"ssh://", "sftp://"} {
		if len(s) >= len(scheme) && strings.EqualFold(s[:len(scheme)], scheme) {
			isURL, s = true, strings.TrimSuffix(s[len(scheme):], "/")
		}
	}
	host := s
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		if t.User, host = s[:at], s[at+1:]; t.User == "" {
			return t, errors.New("the user is empty")
		}
	}
	if isURL {
		if strings.ContainsAny(host, "/?#") {
			return t, errors.New("it has a path")
		}
		if t.User, err = url.PathUnescape(t.User); err != nil {
			return t, err
		}
	}
	t.Host = host
	switch {
	case strings.HasPrefix(host, "["):
		inside, rest, ok := strings.Cut(host[1:], "]")
		_, notAddr := netip.ParseAddr(inside)
		if !ok || rest != "" && rest[0] != ':' || strings.Contains(inside, ":") && notAddr != nil {
			return t, errors.New("brackets go around an address")
		}
		if t.Host = inside; rest != "" {
			t.Port, err = parsePort(rest[1:])
		}
	case strings.Count(host, ":") == 1:
		name, number, _ := strings.Cut(host, ":")
		t.Host = name
		t.Port, err = parsePort(number)
	}
	return t, err
}

// check returns an error if a name contains characters that have a meaning to shells or option
// parsers. ssh refuses such names too.
func (t Target) check() error {
	const forUsers = "'`\";&<>|(){}"
	if t.Host == "" {
		return errors.New("the host is empty")
	}
	if !validHost(t.Host) {
		return errors.New("the host has characters that no host has")
	}
	for i, c := range []byte(t.User) {
		rest := t.User[i+1:]
		switch {
		case i == 0 && c == '-',
			isControl(rune(c)),
			strings.IndexByte(forUsers, c) >= 0,
			c == ' ' && strings.HasPrefix(rest, "-"),
			c == '\\' && rest == "":
			return errors.New("the user has characters that no user should have")
		}
	}
	return nil
}

// validHost reports whether host looks like a name or an address: it contains no forbidden
// characters, and does not begin with a hyphen.
func validHost(host string) bool {
	// A percent sign is allowed only before the zone of an address.
	if ip, zone, ok := strings.Cut(host, "%"); ok && net.ParseIP(ip) != nil && zone != "" {
		host = zone
	}
	const never = "'`\"$\\;&<>|(){}[]/%"
	return host[0] != '-' && !strings.ContainsAny(host, never) &&
		!strings.ContainsFunc(host, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
}

// hostPort joins a host and a port as known_hosts writes them. It leaves out port 22.
func hostPort(host string, port int) string {
	if port == 0 || port == defaultPort {
		return host
	}
	return "[" + host + "]:" + strconv.Itoa(port)
}

// String returns user@host:port, without the port if it is 22 or unknown.
func (t Target) String() string {
	s := hostPort(t.Host, t.Port)
	if t.User != "" {
		s = fmt.Sprintf("%s@%s", t.User, s)
	}
	return s
}
