package webclient

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/html"

	"github.com/haul-project/haul/internal/servertext"
)

const (
	// maxHTMLToken is the largest size of a tag, or of the text between two tags, in bytes.
	maxHTMLToken = 64 << 10

	// maxTitle is how many bytes of a page's title are read.
	maxTitle = 1 << 10
)

// listingTitles are the beginnings of the titles of directory listings by Apache, nginx, lighttpd,
// and Python's http.server. A page with another title may be anything, and its links may lead
// anywhere.
var listingTitles = []string{"Index of ", "Directory listing for "}

// decodeHTML parses a listing in HTML. It reads only the names, and which of them are directories:
// on such pages, sizes are rounded, and times lack the seconds and the time zone.
func decodeHTML(r io.Reader, dir *url.URL) ([]fs.FileInfo, error) {
	z := html.NewTokenizer(r)
	z.SetMaxBuf(maxHTMLToken)
	var list []fs.FileInfo
	seen := map[string]bool{}
	title, inTitle := "", false
	for {
		kind := z.Next()
		switch kind {
		case html.ErrorToken:
			if err := z.Err(); !errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("%w: in the listing: %w", ErrProtocol, err)
			}
			if !isListingTitle(title) {
				return nil, errNoListing
			}
			slices.SortFunc(list, func(a, b fs.FileInfo) int { return cmp.Compare(a.Name(), b.Name()) })
			return list, nil
		case html.TextToken:
			if inTitle && len(title) < maxTitle {
				title += string(z.Text())
			}
			continue
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
		default:
			continue
		}
		tag, attrs := z.TagName()
		switch string(tag) {
		case "title":
			inTitle = kind == html.StartTagToken && title == ""
		case "a":
			name, isDir, ok := childOf(dir, hrefOf(z, attrs))
			if !ok || seen[name] {
				continue
			}
			if len(list) == maxEntries {
				return nil, fmt.Errorf("%w: in the listing: more than %d entries in one directory", ErrProtocol, maxEntries)
			}
			seen[name] = true
			list = append(list, fileInfo{name: name, dir: isDir, version: version{size: -1}, partial: true})
		}
	}
}

func isListingTitle(title string) bool {
	title = strings.TrimSpace(title)
	return slices.ContainsFunc(listingTitles, func(begin string) bool { return strings.HasPrefix(title, begin) })
}

// hrefOf returns the target of a tag's link, or "".
func hrefOf(z *html.Tokenizer, more bool) string {
	for more {
		var key, value []byte
		if key, value, more = z.TagAttr(); string(key) == "href" {
			return string(value)
		}
	}
	return ""
}

// childOf returns the name that a link leads to, if it is an entry of the directory itself. It
// returns false for links to the parent, to other servers, and to the same page in another order
// (?C=N;O=D). It ignores a <base> in the page, so the name is always below the directory.
func childOf(dir *url.URL, href string) (name string, isDir, ok bool) {
	u, err := url.Parse(strings.TrimSpace(href))
	if err != nil || u.Opaque != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.User != nil {
		return "", false, false
	}
	if u.Scheme != "" && u.Scheme != dir.Scheme || u.Host != "" && u.Host != dir.Host || u.Scheme != "" && u.Host == "" {
		return "", false, false
	}
	rest := u.EscapedPath()
	if u.Host != "" || strings.HasPrefix(rest, "/") {
		if rest, ok = strings.CutPrefix(rest, dir.EscapedPath()); !ok {
			return "", false, false
		}
	}
	rest = strings.TrimPrefix(rest, "./")
	rest, isDir = strings.CutSuffix(rest, "/")
	if strings.Contains(rest, "/") {
		return "", false, false
	}
	name, err = url.PathUnescape(rest)
	if err != nil || name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return "", false, false
	}
	return name, isDir, true
}

const (
	// maxEntries is the largest number of entries of a listing, which is held in memory. haul's
	// server lists no more than that.
	maxEntries = 1 << 18

	// maxListing is the largest size of a listing, in bytes.
	maxListing = 64 << 20

	// maxLooks is how many files are looked up at a time for a listing that has only names.
	maxLooks = 8
)

// A listingEntry is an entry of a listing, with the fields of several servers: haul and nginx send
// type, size and mtime, Caddy sends is_dir and mod_time.
type listingEntry struct {
	Name     string `json:"name"`
	Bytes    []byte `json:"name_bytes"` // sent by haul for a name that is not UTF-8
	Type     string `json:"type"`
	IsDir    bool   `json:"is_dir"`
	Size     *int64 `json:"size"`
	Modified string `json:"modified"`
	Mtime    string `json:"mtime"`
	ModTime  string `json:"mod_time"`
}

// info returns the entry as a fileInfo. The caller must check the name.
func (e listingEntry) info() fileInfo {
	name := e.Name
	if len(e.Bytes) > 0 {
		name = string(e.Bytes)
	}
	i := fileInfo{name: strings.TrimSuffix(name, "/"), version: version{size: -1}}
	i.dir = e.IsDir || e.Type == "directory" || e.Type == "dir" || strings.HasSuffix(e.Name, "/")
	if e.Size != nil && *e.Size >= 0 {
		i.version.size = *e.Size
	}
	for _, s := range []string{e.Modified, e.Mtime, e.ModTime} {
		if t, err := http.ParseTime(s); err == nil {
			i.listed = t
		} else if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
			i.listed = t.Truncate(time.Second) // whole seconds, as in Last-Modified
		}
	}
	return i
}

// errNoListing means that a server does not list directories in a supported format.
var errNoListing = fmt.Errorf("%w: the server does not list this directory, neither in JSON nor as Apache, nginx, lighttpd or Python's http.server do; name the files", errors.ErrUnsupported)

// decodeListing parses a listing in JSON: an array of objects, or an object that has such an array
// under "entries".
func decodeListing(r io.Reader) ([]fs.FileInfo, error) {
	wrong := func(err error) error {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("%w: in the listing: %w", ErrProtocol, err)
	}
	d := json.NewDecoder(r)
	t, err := d.Token()
	for err == nil && t == json.Delim('{') {
		t, err = findEntries(d)
	}
	if err != nil {
		return nil, wrong(err)
	}
	if t != json.Delim('[') {
		return nil, wrong(errors.New("it is no array"))
	}
	var list []fs.FileInfo
	for d.More() {
		if len(list) == maxEntries {
			return nil, wrong(fmt.Errorf("more than %d entries in one directory", maxEntries))
		}
		var e listingEntry
		if err := d.Decode(&e); err != nil {
			return nil, wrong(err)
		}
		list = append(list, e.info())
	}
	if _, err := d.Token(); err != nil {
		return nil, wrong(err)
	}
	slices.SortFunc(list, func(a, b fs.FileInfo) int { return cmp.Compare(a.Name(), b.Name()) })
	for i := 1; i < len(list); i++ {
		if list[i-1].Name() == list[i].Name() {
			return nil, wrong(fmt.Errorf("%q is there twice", servertext.Cut(list[i].Name())))
		}
	}
	return list, nil
}

// findEntries reads an object up to the value of "entries", and returns the first token of this
// value.
func findEntries(d *json.Decoder) (json.Token, error) {
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		if key == "entries" {
			t, err := d.Token()
			if err == nil && t == json.Delim('{') {
				err = errors.New("the entries are no array")
			}
			return t, err
		}
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("it has no entries")
}

// A boundedReader reads at most `left` bytes, and then returns an error.
type boundedReader struct {
	r    io.Reader
	left int64
}

// Read implements [io.Reader].
func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w: more than %d bytes", ErrProtocol, int64(maxListing))
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
