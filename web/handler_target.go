package web

import (
	"errors"
	"io/fs"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/haul-project/haul/store"
)

// maxPath is how many bytes of a decoded path are looked at: as many as a store
// takes for a name.
const maxPath = 4096

// nameOf returns the name that the target of a request has in a store, and
// whether it is a directory's, which ends in a slash. The root is ".".
//
// Names are cleaned by the rules of [store.CleanName], as they are for other
// protocols. A slash that was written %2F is refused: a proxy in front may have
// taken it for a part of the name, and decided by that who may have it.
func nameOf(u *url.URL) (name string, dir bool, err error) {
	p := u.Path
	switch {
	case p == "" && u.Host != "": // http://host, RFC 9110 §4.2.3
		return ".", true, nil
	case u.Opaque != "" || p == "" || p[0] != '/':
		return "", false, errTarget
	case len(p) > maxPath:
		return "", false, errLongName
	case strings.Contains(u.RawPath, "%2F") || strings.Contains(u.RawPath, "%2f"):
		return "", false, errSlash
	case !utf8.ValidString(p) || strings.IndexByte(p, 0) >= 0:
		return "", false, errBadName
	}
	name, dir = strings.CutSuffix(p[1:], "/")
	switch {
	case name == "" || name == ".":
		return ".", true, nil
	case fs.ValidPath(name) && strings.IndexByte(name, '\\') < 0:
		return name, dir, nil
	}
	last := p[strings.LastIndexAny(p, `/\`)+1:]
	name, err = store.CleanName(p)
	switch {
	case errors.Is(err, store.ErrNotRegular): // it names nothing: the root
		return ".", true, nil
	case err != nil:
		return "", false, errDots
	}
	return name, last == "" || last == ".", nil
}
