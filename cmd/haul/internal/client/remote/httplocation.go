package remote

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
)

// errWebPassword reports that an HTTP URL contains a password. Messages must not show such a URL.
var errWebPassword = errors.New("a password does not belong in a URL, where others can see it; haul asks for it, or ~/.netrc or --password-file has it")

// errColon reports that the user's name in a URL contains a colon. The part after the colon may be
// a password, so messages must not show the URL.
var errColon = errors.New("a user's name cannot have a colon in basic authentication (RFC 7617)")

// A webSite describes the web server of a location.
type webSite struct {
	root  string // URL of the server: scheme, host, port, and a slash
	user  string
	query string // query that is appended to every path, such as a signature
}

// parseHTTP parses the part of an http or https URL after the scheme (RFC 9110 §4.2). name is the
// path below the root; a slash at its end is kept.
func parseHTTP(scheme, s string) (site webSite, name string, err error) {
	if strings.Contains(s, "#") {
		return site, "", errors.New("a # in a name is written %23")
	}
	authority, rest := s, ""
	if i := strings.IndexAny(s, "/?"); i >= 0 {
		authority, rest = s[:i], s[i:]
	}
	host := authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user := authority[:at]
		host = authority[at+1:]
		switch {
		case strings.Contains(user, ":"):
			return site, "", errWebPassword
		case user == "":
			return site, "", errors.New("the user is empty")
		}
		if site.user, err = url.PathUnescape(user); err != nil {
			return site, "", err
		}
		if strings.ContainsAny(site.user, ":\x00\r\n") {
			return site, "", errColon
		}
	}
	u, err := url.Parse(scheme + "://" + host + rest)
	if err != nil {
		return site, "", errors.Unwrap(err) // leave out the URL, which may contain a secret
	}
	if err := checkHost(u); err != nil {
		return site, "", err
	}
	escaped := strings.ToLower(u.EscapedPath())
	switch {
	case strings.Contains(escaped, "%2f"):
		return site, "", errors.New("a slash within a name (%2F) cannot be asked for")
	case strings.IndexByte(u.Path, 0) >= 0:
		return site, "", errors.New("a name cannot hold a NUL")
	}
	site.root = scheme + "://" + u.Host + "/"
	site.query = u.RawQuery
	return site, strings.TrimPrefix(u.Path, "/"), nil
}

// checkHost returns an error if the URL's host or port is missing or invalid.
func checkHost(u *url.URL) error {
	name, port := u.Hostname(), u.Port()
	switch {
	case name == "":
		return errors.New("the URL has no host")
	case port != "" && !isPort(port):
		return fmt.Errorf("%s is no port; choose 1 to 65535", console.Visible(port))
	}
	u.Host = strings.TrimSuffix(u.Host, ":") // an empty port means no port: RFC 3986, section 6.2.3
	return nil
}

// isPort reports whether a word is the number of a port.
func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}
