package web

import (
	"net/http"
	"path"
	"slices"

	"github.com/haul-project/haul/store"
)

// A coding is a content coding, and the extension of files that are compressed with it.
type coding struct{ name, ext string }

// codings are the supported codings. The first ones compress best. zstd is defined in RFC 8878.
var codings = [...]coding{{"br", ".br"}, {"zstd", ".zst"}, {"gzip", ".gz"}}

// isTree reports whether the store is a single tree. Other stores search for a name: in one
// directory after the other, or by rules. For two names that differ in the extension they may
// return unrelated files, or the same file twice.
func (x *exchange) isTree() bool {
	_, ok := x.acct.Store.(store.Tree)
	return ok
}

// variant opens the precompressed variant of a file that the client prefers. It returns false if
// the file itself is the answer.
//
// A variant that is older than the file belongs to an older version and is not used. For a request
// with a Range, a variant is used only if the request names it by its entity tag: ranges without a
// tag refer to the file.
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
			continue // without this variant, the client gets another one or the file itself
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

// isCoded reports whether a name has the extension of a variant.
func isCoded(name string) bool {
	return slices.ContainsFunc(codings[:], func(c coding) bool { return c.ext == path.Ext(name) })
}
