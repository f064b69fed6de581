package web

import (
	"net/http"
	"path"
	"slices"

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
func (x delivery) variant(name string, of representation) (representation, bool) {
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

// isCoded reports whether a name is that of a variant.
func isCoded(name string) bool {
	return slices.ContainsFunc(codings[:], func(c coding) bool { return c.ext == path.Ext(name) })
}
