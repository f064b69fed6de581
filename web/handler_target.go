package web

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/haul-project/haul/store"
)

// maxPath is the largest accepted size of a decoded path, in bytes. It equals the limit of stores
// for a name.
const maxPath = 4096

// nameOf returns the name in a store for the target of a request. dir reports whether the path ends
// in a slash, as the path of a directory does. The name of the root is ".".
//
// Each name has exactly one decoded path. A proxy in front may have rules for paths, and a second
// path to the same file would bypass them. So dot segments, backslashes and %2F are refused. For
// two slashes in a row the error is errDoubleSlash.
func nameOf(u *url.URL) (name string, dir bool, err error) {
	p := u.Path
	switch {
	case p == "" && u.Host != "": // http://host means http://host/ (RFC 9110 §4.2.3)
		return ".", true, nil
	case u.Opaque != "" || p == "" || p[0] != '/':
		return "", false, errTarget
	case len(p) > maxPath:
		return "", false, errLongName
	case strings.Contains(u.RawPath, "%2F") || strings.Contains(u.RawPath, "%2f"):
		return "", false, errSlash
	case strings.IndexByte(p, 0) >= 0:
		return "", false, errBadName
	case strings.IndexByte(p, '\\') >= 0:
		return "", false, errBackslash
	}
	name, dir = strings.CutSuffix(p[1:], "/")
	switch {
	case p == "/":
		return ".", true, nil
	case name != "." && store.ValidName(name):
		return name, dir, nil
	case hasDots(p):
		return "", false, errDots
	}
	return "", false, errDoubleSlash
}

// loaderName returns the name that shim means when it requests DIR//grubx64.efi: a file in shim's own
// directory. Releases of shim up to at least 16.1 write two slashes there, and shim follows no
// redirects. Only .efi files can be requested by a path with two slashes, so a proxy's rules for
// paths hold for all other files.
func loaderName(p string) (name string, ok bool) {
	dir, file, ok := strings.Cut(p, "//")
	if !ok || !strings.HasPrefix(p, "/") || strings.Contains(file, "/") || !strings.EqualFold(path.Ext(file), ".efi") {
		return "", false
	}
	name = strings.TrimPrefix(dir+"/"+file, "/")
	return name, len(p) <= maxPath && store.ValidName(name)
}

// hasDots reports whether a path has a dot segment (RFC 3986 §3.3).
func hasDots(p string) bool {
	for segment := range strings.SplitSeq(p, "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// redirectSlashes redirects from a path with two slashes in a row to the path with one. Clients
// that join a base URL and a path often write two.
func (x *exchange) redirectSlashes() {
	p := x.r.URL.Path
	first := strings.Index(p, "//")
	// The location is relative, because a handler in front of this one may have removed a prefix of
	// the path: it leads up from the last slash to the first double slash.
	up := strings.Repeat("../", strings.Count(p[first+1:], "/"))
	parts := strings.FieldsFunc(p[first:], func(r rune) bool { return r == '/' })
	to := up + strings.Join(parts, "/")
	if len(parts) > 0 && strings.HasSuffix(p, "/") {
		to += "/"
	}
	location := url.URL{Path: to, RawQuery: x.r.URL.RawQuery}
	x.set("Location", location.String())
	x.reply(http.StatusMovedPermanently, errDoubleSlash.text)
}
