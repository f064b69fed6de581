package web

import (
	"net/http"
	"path"
	"strings"

	"github.com/haul-project/haul/store"
)

// A coding is a content coding of which there may be a variant beside a file.
type coding struct{ name, ext string }

// codings are those that are looked for, the densest first. zstd is RFC 8878's.
var codings = [...]coding{{"br", ".br"}, {"zstd", ".zst"}, {"gzip", ".gz"}}

// isTree reports whether the names of the store are those of one tree. Others
// look a name up here and there: in one directory after the other, or by rules for
// it. Of two names that differ in the extension they may find one file here and
// one there, or the same for both.
func (x *exchange) isTree() bool {
	_, ok := x.acct.Store.(store.Tree)
	return ok
}

// variant opens the precompressed variant of a file that a request likes best. It
// returns false if the file itself is the answer.
//
// A variant that is older than the file is of an older version, and does not
// count. Nor does any for a request with a Range, unless it names the variant by
// its entity tag: the ranges of who has not are of the file.
func (x *exchange) variant(name string, of representation) (representation, bool) {
	accepted := x.r.Header["Accept-Encoding"]
	if len(accepted) == 0 || isCoded(name) {
		return representation{}, false
	}
	ranged := x.r.Method == http.MethodGet && len(x.r.Header["Range"]) > 0
	if ranged && len(x.r.Header["If-Range"]) == 0 && len(x.r.Header["If-Match"]) == 0 {
		return representation{}, false
	}
	var found representation
	best := 0
	for _, c := range codings {
		q, _ := quality(accepted, c.name)
		if q <= best {
			continue
		}
		f, err := x.acct.Store.Open(x.ctx(), name+c.ext)
		if err != nil {
			continue // there is the file itself
		}
		p, err := describe(f, c.name, x.Began)
		if err != nil || p.olderThan(of) || ranged && !p.named(x.r.Header) {
			_ = f.Close()
			continue
		}
		if best > 0 {
			_ = found.file.Close()
		}
		best, found = q, p
	}
	return found, best > 0
}

// olderThan reports whether p is older than another, by the time that whoever wrote
// them has given them, or by that of the system. A new version often has the time
// of its source (cp -p, rsync -a), and that may be before the variant's.
func (p representation) olderThan(other representation) bool {
	return p.modified.Before(other.modified) ||
		!p.changed.IsZero() && !other.changed.IsZero() && p.changed.Before(other.changed)
}

// named reports whether a request names this version of the file.
func (p representation) named(h http.Header) bool {
	if len(h["If-Range"]) > 0 {
		return p.inRange(h) && strings.Contains(h["If-Range"][0], `"`)
	}
	return p.etag != "" && p.matches(h["If-Match"], true) && !strings.Contains(strings.Join(h["If-Match"], ","), "*")
}

// isCoded reports whether a name is that of a variant.
func isCoded(name string) bool {
	ext := path.Ext(name)
	for _, c := range codings {
		if ext == c.ext {
			return true
		}
	}
	return false
}

// quality returns how much a client wants something, in thousandths, by the
// Accept or the Accept-Encoding of its request (RFC 9110 §12.4.2), and whether it
// says so by name rather than by a wildcard. A name that is not there is not wanted.
func quality(fields []string, name string) (q int, named bool) {
	wildcard := 0
	for _, field := range fields {
		for item := range strings.SplitSeq(field, ",") {
			token, params, _ := strings.Cut(item, ";")
			token = strings.Trim(token, " \t")
			switch {
			case strings.EqualFold(token, name), name == "gzip" && strings.EqualFold(token, "x-gzip"): // RFC 9110 §8.4.1.3
				q, named = max(q, weight(params)), true
			case token == "*", token == "*/*":
				wildcard = max(wildcard, weight(params))
			}
		}
	}
	if !named {
		q = wildcard
	}
	return q, named
}

// weight reads a weight among the parameters of a list's element. One that makes
// no sense counts nothing.
func weight(params string) int {
	for p := range strings.SplitSeq(params, ";") {
		key, value, ok := strings.Cut(strings.Trim(p, " \t"), "=")
		if !ok || !strings.EqualFold(strings.TrimRight(key, " \t"), "q") {
			continue
		}
		whole, fraction, _ := strings.Cut(strings.Trim(value, " \t"), ".")
		n, ok := digits((fraction + "000")[:3])
		switch {
		case !ok, len(fraction) > 3:
			return 0
		case whole == "1" && n == 0:
			return 1000
		case whole == "0":
			return int(n)
		}
		return 0
	}
	return 1000
}
