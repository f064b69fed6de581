package web

import (
	"bufio"
	"embed"
	"html"
	"html/template"
	"io"
	"iter"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/haul-project/haul/internal/webpage"
)

// maxCrumbs is how many parent directories have links in the page of a listing: the first one and
// the last ones.
const maxCrumbs = 16

//go:embed page
var pageFiles embed.FS

// pageTemplate holds the text before and after the lines of the entries. The lines are written
// without a template, which would take twenty times as long.
var pageTemplate = template.Must(template.ParseFS(pageFiles, "page/page.html"))

// The styles and scripts of the page, and the policies that allow only these: nothing else in a
// page runs, whatever the names in the listing contain.
var (
	pageStyle    = webpage.Part(pageFiles, "page/page.css")
	listScript   = webpage.Part(pageFiles, "page/list.js")
	uploadScript = webpage.Part(pageFiles, "page/upload.js")

	pagePolicy   = policyOf(webpage.Source(listScript))
	uploadPolicy = policyOf(webpage.Source(listScript)+" "+webpage.Source(uploadScript)) + "; connect-src 'self'"
)

func policyOf(scripts string) string {
	return "default-src 'none'; img-src data:; style-src " + webpage.Source(pageStyle) + "; script-src " + scripts +
		"; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}

// A page is the data of the template for a listing.
type page struct {
	Title, Name string
	Above       []crumb
	Columns     []column
	Search      string // the search text; "" if all entries are shown
	By, Order   string
	Count       string
	All         string // the link to all entries
	Uploads     bool
	Replaces    bool // an upload may replace a file
	Style       template.CSS
	Scripts     []template.JS
}

// A crumb is a link to a directory above. A crumb without a link stands for several directories
// that are left out.
type crumb struct{ Name, Link string }

// A column is the heading of a column in the page. Its link sorts the entries by this column or, if
// they are sorted by it already, reverses the order.
type column struct{ Heading, Link, Sorted, Arrow string }

// writeHTML writes a listing as a page. It escapes all text that comes from outside. `entries` yields
// the n entries that match the search, and `all` is the number of all entries of the directory.
func writeHTML(to io.Writer, name string, access Access, how listingQuery, entries iter.Seq[entry], n, all int) error {
	w := bufio.NewWriterSize(to, listingBuffer)
	p := newPage(name, how, n, all)
	if access.writes() {
		p.Uploads, p.Replaces, p.Scripts = true, access.replaces(), append(p.Scripts, template.JS(uploadScript))
	}
	if err := pageTemplate.ExecuteTemplate(w, "head", p); err != nil {
		return err
	}
	for e := range entries {
		shown, size := e.name, readableSize(e.size)
		if e.dir {
			shown, size = shown+"/", ""
		}
		// String returns a relative link, with "./" before a name that would look like a URL with a
		// scheme.
		link := url.URL{Path: shown}
		b := append(w.AvailableBuffer(), `<tr><td><a href="`...)
		b = append(append(b, html.EscapeString(link.String())...), `"><bdi>`...)
		b = append(append(b, html.EscapeString(strings.ToValidUTF8(shown, "\ufffd"))...), "</bdi></a><td"...)
		if e.size >= 1024 && !e.dir {
			b = append(append(append(b, ` title="`...), itoa(e.size)...), ` bytes"`...)
		}
		b = append(append(append(b, '>'), size...), "<td>"...)
		b = time.Unix(e.modified, 0).UTC().AppendFormat(b, "2006-01-02 15:04")
		if _, err := w.Write(append(b, '\n')); err != nil {
			return err
		}
	}
	if err := pageTemplate.ExecuteTemplate(w, "foot", p); err != nil {
		return err
	}
	return w.Flush()
}

func newPage(name string, how listingQuery, n, all int) *page {
	p := &page{
		Title: name, Name: name, Search: how.search, By: how.by, Order: how.order(), Count: countOf(n, all), All: how.link(how.by, how.order(), ""),
		Style: template.CSS(pageStyle), Scripts: []template.JS{template.JS(listScript)},
	}
	if name != "/" {
		p.Title, p.Name, p.Above = name+"/", path.Base(name), crumbsOf(name)
	}
	p.Title, p.Name = strings.ToValidUTF8(p.Title, "\ufffd"), strings.ToValidUTF8(p.Name, "\ufffd")
	for _, c := range listingColumns {
		heading := column{Heading: c.heading, Link: how.link(c.by, "asc", how.search)}
		switch {
		case how.by == c.by && how.descending:
			heading.Sorted, heading.Arrow = "descending", "▼"
		case how.by == c.by:
			heading.Link, heading.Sorted, heading.Arrow = how.link(c.by, "desc", how.search), "ascending", "▲"
		}
		p.Columns = append(p.Columns, heading)
	}
	return p
}

// crumbsOf returns the parents of a directory. Their links are relative, because a handler in front
// of this one may have removed a prefix of the path.
func crumbsOf(name string) []crumb {
	parts := strings.Split(name[1:], "/")
	crumbs := []crumb{{"/", strings.Repeat("../", len(parts))}}
	for i, part := range parts[:len(parts)-1] {
		up := len(parts) - 1 - i
		switch {
		case up < maxCrumbs-1:
			crumbs = append(crumbs, crumb{strings.ToValidUTF8(part, "\ufffd"), strings.Repeat("../", up)})
		case len(crumbs) == 1:
			crumbs = append(crumbs, crumb{Name: "…"})
		}
	}
	return crumbs
}

// countOf returns the text with the number of entries.
func countOf(n, all int) string {
	text := itoa(int64(all))
	if n < all {
		text = itoa(int64(n)) + " of " + text
	}
	if all == 1 {
		return text + " entry"
	}
	return text + " entries"
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
	return strconv.FormatFloat(value, 'f', 1, 64) + " " + units[unit:unit+1] + "iB"
}
