package webclient

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

const (
	// maxHTMLToken is how many bytes a tag, or a text between two of them, may have.
	maxHTMLToken = 64 << 10

	// maxTitle is how many bytes of a page's title are looked at.
	maxTitle = 1 << 10
)

// listingTitles begin the titles of pages that list a directory: those of Apache,
// nginx and lighttpd, and those of Python's http.server. A page with another title
// may be anything, and its links may lead anywhere.
var listingTitles = []string{"Index of ", "Directory listing for "}

// decodeHTML reads a listing that is a page for people. Of an entry it has the name
// and whether it is a directory. The sizes on such pages are rounded and the times
// lack seconds and time zone, so neither is read.
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
	for _, begin := range listingTitles {
		if strings.HasPrefix(title, begin) {
			return true
		}
	}
	return false
}

// hrefOf returns where a tag's link leads, or "".
func hrefOf(z *html.Tokenizer, more bool) string {
	for more {
		var key, value []byte
		if key, value, more = z.TagAttr(); string(key) == "href" {
			return string(value)
		}
	}
	return ""
}

// childOf returns the name of what a link leads to, if that is an entry of the
// directory itself: links to the parent, to other servers and to other orders of
// the same page (?C=N;O=D) are none. A <base> in the page is not heeded, so the
// name can only be one below the directory.
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
