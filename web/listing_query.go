package web

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
)

// A listingQuery is how a listing is asked for: by the query of its URL, such as
// "?sort=size&order=desc", and by Accept.
type listingQuery struct {
	entries    bool   // the entries are asked for, even if there is an index
	json       bool   // rather than HTML
	by         string // one of listingColumns
	descending bool
}

// listingColumns are what a listing can be sorted by, and the headings of its columns.
var listingColumns = [...]struct{ by, heading string }{{"name", "Name"}, {"size", "Size"}, {"time", "Modified"}}

// listingQuery reads how the listing is asked for. It ignores what it does not know.
func (x *exchange) listingQuery() listingQuery {
	query, _ := url.ParseQuery(x.r.URL.RawQuery)
	q := listingQuery{json: query.Has("json") || x.prefersJSON(), by: listingColumns[0].by, descending: query.Get("order") == "desc"}
	for _, c := range listingColumns {
		if c.by == query.Get("sort") {
			q.by = c.by
		}
	}
	q.entries = q.json || query.Has("list") || query.Has("sort")
	return q
}

// prefersJSON reports whether Accept names JSON, and likes HTML no better.
func (x *exchange) prefersJSON() bool {
	accept := x.r.Header["Accept"]
	asJSON, named := quality(accept, "application/json")
	if !named || asJSON == 0 {
		return false
	}
	asHTML, named := quality(accept, "text/html")
	return !named || asJSON > asHTML
}

// sort sorts the entries. Those that are equal are in the order of their names, and
// directories, which have no size, come first where sizes count.
func (q listingQuery) sort(entries []entry) {
	slices.SortFunc(entries, func(a, b entry) int {
		order := 0
		switch q.by {
		case "size":
			if a.dir != b.dir {
				if a.dir {
					return -1
				}
				return 1
			}
			if !a.dir {
				order = cmp.Compare(a.size, b.size)
			}
		case "time":
			order = cmp.Compare(a.modified, b.modified)
		default:
			order = strings.Compare(a.name, b.name)
		}
		if q.descending {
			order = -order
		}
		return cmp.Or(order, strings.Compare(a.name, b.name))
	})
}
