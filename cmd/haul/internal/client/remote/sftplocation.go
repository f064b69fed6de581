package remote

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/client/openssh"
)

// errPassword reports that an SFTP URL contains a password. Messages must not show such a URL.
var errPassword = errors.New("a password does not belong in a URL, where others can see it; haul asks for it, or use --password-file or a key")

// parseServer parses the [user@]host of host:path.
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

// parseSFTP parses the part of an sftp URL after the scheme: [user@]host[:port][/path], by
// draft-ietf-secsh-scp-sftp-ssh-uri-04. The path is absolute, unless it begins with /~/, as in
// curl's URLs: then it is relative to the home directory. Without a path the location is the home
// directory.
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
		return t, "", errors.New("a fingerprint or other parameter is not read from a URL; known_hosts says which host key is right")
	case strings.Contains(user, ":"):
		return t, "", errPassword
	case at == 0:
		return t, "", errors.New("the user is empty")
	}
	if user, err = url.PathUnescape(user); err != nil {
		return t, "", err
	}
	if strings.HasPrefix(host, "[") {
		host = strings.ReplaceAll(host, "%25", "%") // a percent sign before a zone is escaped (RFC 6874)
		inside, _, _ := strings.Cut(host[1:], "]")
		if a, err := netip.ParseAddr(inside); err != nil || !a.Is6() {
			return t, "", fmt.Errorf("[%s] is no IPv6 address", console.Visible(inside))
		}
	} else if strings.Count(host, ":") > 1 {
		return t, "", fmt.Errorf("an IPv6 address goes into brackets: [%s]", console.Visible(host))
	} else if strings.HasSuffix(host, ":") {
		host = host[:len(host)-1] // an empty port means no port: RFC 3986, section 6.2.3
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
		return t, "", errors.New("a name cannot hold a NUL")
	}
	if below, ok := cutHome(strings.TrimPrefix(path, "/")); ok {
		path = below
	}
	return t, path, nil
}

// cutHome returns the rest of a path that begins with ~ or ~/, as a name below the home directory.
// The result has no leading slashes.
func cutHome(path string) (below string, ok bool) {
	if path == "~" {
		return "", true
	}
	if below, ok = strings.CutPrefix(path, "~/"); !ok {
		return "", false
	}
	if below = strings.TrimLeft(below, "/"); strings.HasPrefix(below, "~") {
		below = "./" + below // otherwise ~NAME would mean the home directory of a user
	}
	return below, true
}
