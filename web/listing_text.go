package web

import (
	"bufio"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	listingBuffer = 32 << 10 // bytes written at a time
	maxSearch     = 255      // bytes of a search text: no name is longer
)

// writeJSON writes a listing as an array of objects:
//
//	{"name":"kernel","type":"file","size":1234,"mtime":"2026-01-02T03:04:05Z"}
//	{"name":"boot","type":"directory","mtime":"2026-01-02T03:04:05Z"}
//
// A name that is not valid UTF-8 is also written in base64, as name_bytes.
func writeJSON(to io.Writer, entries iter.Seq[entry]) error {
	w := bufio.NewWriterSize(to, listingBuffer)
	const first = "[\n"
	between := first
	for e := range entries {
		name, err := json.Marshal(e.name)
		if err != nil {
			return err
		}
		b := append(w.AvailableBuffer(), between...)
		b = append(append(b, `{"name":`...), name...)
		if !utf8.ValidString(e.name) {
			b = append(b, `,"name_bytes":"`...)
			b = append(base64.StdEncoding.AppendEncode(b, []byte(e.name)), '"')
		}
		if e.dir {
			b = append(b, `,"type":"directory"`...)
		} else {
			b = append(append(b, `,"type":"file","size":`...), itoa(e.size)...)
		}
		b = append(b, `,"mtime":"`...)
		b = time.Unix(e.modified, 0).UTC().AppendFormat(b, time.RFC3339)
		b = append(b, `"}`...)
		if _, err := w.Write(b); err != nil {
			return err
		}
		between = ",\n"
	}
	end := "\n]\n"
	if between == first {
		end = "[]\n"
	}
	if _, err := w.WriteString(end); err != nil {
		return err
	}
	return w.Flush()
}

// An entry is a line of a listing.
type entry struct {
	name     string
	size     int64
	modified int64       // time of the last change, in Unix seconds
	mode     fs.FileMode // the permissions
	dir      bool
}

// A listingQuery says how a listing is requested: by the query of the URL, such as
// "?sort=size&order=desc", and by Accept.
type listingQuery struct {
	entries    bool   // the client wants the entries, even if there is an index
	json       bool   // the answer is JSON rather than HTML
	by         string // the column to sort by, one of listingColumns
	descending bool
	search     string // a text that names must contain; "" selects all
	archive    string // the kind of archive; "" asks for a list
}

// listingColumns are the columns that a listing can be sorted by, with their headings.
var listingColumns = [...]struct{ by, heading string }{{"name", "Name"}, {"size", "Size"}, {"time", "Modified"}}

// listingQuery reads the listing's query. It ignores unknown values.
func (x directoryList) listingQuery() listingQuery {
	query, _ := url.ParseQuery(x.r.URL.RawQuery)
	q := listingQuery{json: query.Has("json") || x.prefersJSON(), by: listingColumns[0].by, descending: query.Get("order") == "desc"}
	for _, c := range listingColumns {
		if c.by == query.Get("sort") {
			q.by = c.by
		}
	}
	q.search = cut(query.Get("q"), maxSearch)
	q.entries = q.json || query.Has("list") || query.Has("sort") || query.Has("q") || query.Has("archive")
	q.archive = query.Get("archive")
	return q
}

func (q listingQuery) order() string {
	if q.descending {
		return "desc"
	}
	return "asc"
}

// link returns the query that lists the same directory in another order or with another search
// text.
func (q listingQuery) link(by, order, search string) string {
	link := "?sort=" + by + "&order=" + order
	if search != "" {
		link += "&q=" + url.QueryEscape(search)
	}
	return link
}

// keep returns the entries whose names contain the search text, ignoring case.
func (q listingQuery) keep(entries []entry) []entry {
	if q.search == "" {
		return entries
	}
	want := strings.ToLower(q.search)
	found := slices.DeleteFunc(entries, func(e entry) bool { return !strings.Contains(strings.ToLower(e.name), want) })
	return slices.Clone(found) // the copy lets the memory of the list be freed
}

// prefersJSON reports whether Accept names JSON, and HTML is absent or ranks lower.
func (x directoryList) prefersJSON() bool {
	accept := x.r.Header["Accept"]
	asJSON, named := quality(accept, "application/json")
	if !named || asJSON == 0 {
		return false
	}
	asHTML, named := quality(accept, "text/html")
	return !named || asJSON > asHTML
}

// sort sorts the entries. Entries with the same size or time are sorted by name. If the list is
// sorted by size, directories come first, because they have no size.
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
