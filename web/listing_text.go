package web

import (
	"bufio"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const listingBuffer = 32 << 10 // bytes written at a time

// writeJSON writes a listing as an array of objects:
//
//	{"name":"kernel","type":"file","size":1234,"mtime":"2026-01-02T03:04:05Z"}
//	{"name":"boot","type":"directory","mtime":"2026-01-02T03:04:05Z"}
//
// A name that is not UTF-8 is there in base64 as well, as name_bytes.
func writeJSON(to io.Writer, entries []entry) error {
	w := bufio.NewWriterSize(to, listingBuffer)
	between := "[\n"
	for i := range entries {
		e := &entries[i]
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
	if len(entries) == 0 {
		end = "[]\n"
	}
	if _, err := w.WriteString(end); err != nil {
		return err
	}
	return w.Flush()
}

// listingHead begins a listing for people. On a narrow screen, names are broken into
// as many lines as they need, and dates into two, so that all columns can be seen.
const listingHead = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>%[1]s</title>
<style>
body{font:1em/1.5 sans-serif;margin:1.5em;color-scheme:light dark}
h1,td{overflow-wrap:anywhere}
td,th{padding:0 2em 0 0;text-align:left;vertical-align:top}
td+td,th+th{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
@media(max-width:40em){body{margin:.75em}h1{font-size:1.3em}td,th{padding:.2em .75em .2em 0}td+td+td{white-space:normal;overflow-wrap:normal;min-width:5.5em}td:last-child,th:last-child{padding-right:0}}
</style>
</head><body><h1>%[1]s</h1>
<table>
<tr>`

// writeHTML writes a listing for people. It escapes all text that is not its own.
func writeHTML(to io.Writer, name string, how listingQuery, entries []entry) error {
	w := bufio.NewWriterSize(to, listingBuffer)
	title := name
	if name != "/" {
		title += "/"
	}
	fmt.Fprintf(w, listingHead, html.EscapeString(strings.ToValidUTF8(title, "\ufffd")))
	for _, c := range listingColumns {
		fmt.Fprint(w, how.heading(c.by, c.heading))
	}
	fmt.Fprint(w, "\n")
	if name != "/" {
		fmt.Fprint(w, "<tr><td><a href=\"../\">../</a><td><td>\n")
	}
	for i := range entries {
		e := &entries[i]
		shown, size := e.name, readableSize(e.size)
		if e.dir {
			shown, size = shown+"/", ""
		}
		// Relative, and with "./" before a name that would look like a scheme.
		link := url.URL{Path: shown}
		b := append(w.AvailableBuffer(), `<tr><td><a href="`...)
		b = append(append(b, html.EscapeString(link.String())...), `">`...)
		b = append(append(b, html.EscapeString(strings.ToValidUTF8(shown, "\ufffd"))...), "</a><td>"...)
		b = append(append(b, size...), "<td>"...)
		b = time.Unix(e.modified, 0).UTC().AppendFormat(b, "2006-01-02 15:04")
		if _, err := w.Write(append(b, '\n')); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "</table>\n<p>Entries: %d. Times are UTC.</p>\n</body></html>\n", len(entries))
	return w.Flush()
}

// heading returns the heading of a column. Its link sorts by the column, or turns the
// order round.
func (q listingQuery) heading(by, text string) string {
	state, order := "", "asc"
	switch {
	case q.by == by && q.descending:
		state, text = ` aria-sort="descending"`, text+" ▼"
	case q.by == by:
		state, order, text = ` aria-sort="ascending"`, "desc", text+" ▲"
	}
	return fmt.Sprintf(`<th scope="col"%s><a href="?sort=%s&amp;order=%s">%s</a>`, state, by, order, text)
}

// readableSize returns a number of bytes as people read it, in units of 1024.
func readableSize(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return itoa(n) + " B"
	}
	value, unit := float64(n)/1024, 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}

// An entry is a line of a listing.
type entry struct {
	name     string
	size     int64
	modified int64 // Unix seconds
	dir      bool
}

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
