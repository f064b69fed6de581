package webclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/haul-project/haul/store"
)

const (
	// maxEntries is how many entries a listing may have, as it is held in
	// memory: no more than haul's server lists.
	maxEntries = 1 << 18

	// maxListing is how many bytes a listing may have.
	maxListing = 64 << 20

	// maxLooks is how many files of a listing that has only names are asked
	// about at a time.
	maxLooks = 8
)

// A listingEntry is an entry of a listing, as one of several servers has it:
// haul's and nginx's say type, size and mtime, Caddy's is_dir and mod_time.
type listingEntry struct {
	Name     string `json:"name"`
	Bytes    []byte `json:"name_bytes"` // of a name that is not UTF-8; haul's
	Type     string `json:"type"`
	IsDir    bool   `json:"is_dir"`
	Size     *int64 `json:"size"`
	Modified string `json:"modified"`
	Mtime    string `json:"mtime"`
	ModTime  string `json:"mod_time"`
}

// info returns what the entry says. Its name is for the caller to judge.
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
			i.listed = t.Truncate(time.Second) // as Last-Modified has it
		}
	}
	return i
}

// ReadDir lists a directory, where the server does that in JSON, or by a page of
// Apache, nginx, lighttpd or Python's http.server; else it is errors.ErrUnsupported.
// Entries of a page have no time, and files a size of -1. Names are as the server
// has them, and may be such as no entry can have.
func (c *Client) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	infos, err := c.list(ctx, name)
	if err != nil {
		return nil, c.fail("readdir", name, err)
	}
	entries := make([]fs.DirEntry, len(infos))
	for i, fi := range infos {
		entries[i] = fs.FileInfoToDirEntry(fi)
	}
	return entries, nil
}

// OpenDir lists a directory, as ReadDir does, but asks the server for what a page
// does not say, file by file.
func (c *Client) OpenDir(ctx context.Context, name string) (store.Entries, error) {
	infos, err := c.list(ctx, name)
	if err != nil {
		return nil, c.fail("readdir", name, err)
	}
	return &dirEntries{left: infos, complete: func(fi fs.FileInfo) fs.FileInfo { return c.complete(ctx, name, fi) }}, nil
}

// dirEntries are the entries of a directory that were not taken yet.
type dirEntries struct {
	left     []fs.FileInfo
	complete func(fs.FileInfo) fs.FileInfo
}

// Next implements [store.Entries].
func (e *dirEntries) Next(into []fs.FileInfo) (int, error) {
	n := copy(into, e.left)
	e.left = e.left[n:]
	if n == 0 && len(into) > 0 {
		return 0, io.EOF
	}
	var work sync.WaitGroup
	places := make(chan struct{}, maxLooks)
	for i, fi := range into[:n] {
		if info, ok := fi.(fileInfo); ok && info.partial && !info.dir {
			places <- struct{}{}
			work.Go(func() {
				into[i] = e.complete(fi)
				<-places
			})
		}
	}
	work.Wait()
	return n, nil
}

// complete asks for what a listing does not say of a file. If the server does not
// say it either, or fails, the entry stays as it is, and the error shows when the
// file is opened.
func (c *Client) complete(ctx context.Context, dir string, fi fs.FileInfo) fs.FileInfo {
	info, err := c.stat(ctx, path.Join(dir, fi.Name()))
	if err != nil {
		return fi
	}
	info.name = fi.Name()
	return info
}

// Close implements [store.Entries].
func (e *dirEntries) Close() error { return nil }

// list returns the entries of a directory, sorted by name.
func (c *Client) list(ctx context.Context, name string) ([]fs.FileInfo, error) {
	if err := checkName(ctx, name); err != nil {
		return nil, err
	}
	k := request{method: http.MethodGet, url: c.urlOf(name, true), header: http.Header{"Accept": {"application/json, text/html;q=0.5"}}}
	a, err := c.ask(ctx, k)
	if err != nil {
		return nil, err
	}
	defer a.close()
	switch {
	case a.StatusCode == http.StatusNotAcceptable:
		return nil, errNoListing
	case a.StatusCode != http.StatusOK:
		return nil, refusalError(a)
	}
	var list []fs.FileInfo
	in := &boundedReader{r: a, left: maxListing}
	switch kind, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type")); kind {
	case "application/json":
		list, err = decodeListing(in)
	case "text/html":
		list, err = decodeHTML(in, a.Request.URL)
	default:
		return nil, errNoListing
	}
	if err == nil {
		_, err = io.Copy(io.Discard, in) // so that the connection can be used again
	}
	if err != nil && isLoss(err) {
		err = lost(err, 1)
	}
	return list, err
}

// errNoListing says that a server does not list directories in a way that is
// read.
var errNoListing = fmt.Errorf("%w: the server does not list this directory, neither in JSON nor as Apache, nginx, lighttpd or Python's http.server do; name the files", errors.ErrUnsupported)

// decodeListing reads a listing: an array of objects, or an object that has one
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
			return nil, wrong(fmt.Errorf("%q is there twice", cutText(list[i].Name())))
		}
	}
	return list, nil
}

// findEntries reads an object up to what is under "entries", and returns how that
// begins.
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

// A boundedReader fails behind so many bytes.
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
