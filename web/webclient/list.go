package webclient

import (
	"context"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"sync"

	"github.com/haul-project/haul/store"
)

// ReadDir lists a directory, if the server sends a list in JSON or a page of Apache, nginx,
// lighttpd or Python's http.server; otherwise the error is errors.ErrUnsupported. Entries from a
// page have no time, and files have a size of -1. Names are returned as the server sends them, and
// may be invalid.
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

// OpenDir lists a directory as ReadDir does, but also requests, file by file, the sizes and times
// that a page lacks.
func (t tree) OpenDir(ctx context.Context, name string) (store.Entries, error) {
	infos, err := t.list(ctx, name)
	if err != nil {
		return nil, t.fail("readdir", name, err)
	}
	return &dirEntries{left: infos, complete: func(fi fs.FileInfo) fs.FileInfo { return t.complete(ctx, name, fi) }}, nil
}

// dirEntries holds the entries of a directory that Next has not returned yet.
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

// complete requests the size and the time of a file, which the listing lacks. If that fails, the
// entry remains incomplete, and the error shows when the file is opened.
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
		_, err = io.Copy(io.Discard, in) // so that the connection can be reused
	}
	if err != nil && isLoss(err) {
		err = lost(err, 1)
	}
	return list, err
}
