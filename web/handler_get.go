package web

import (
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"path"

	"github.com/haul-project/haul/store"
)

// get answers GET and HEAD: with a file, an index, a listing or a redirect.
func (x *exchange) get() {
	if x.dir {
		x.directory()
		return
	}
	f, err := x.acct.Store.Open(x.ctx(), x.name)
	if err == nil {
		delivery{x}.serveFile(f, x.name)
		return
	}
	if errors.Is(err, store.ErrNotRegular) {
		if fi, statErr := x.acct.Store.Stat(x.ctx(), x.name); statErr == nil && fi.IsDir() {
			x.directoryWithoutSlash()
			return
		}
	}
	x.fail(err)
}

// directoryWithoutSlash redirects a request for a directory to the name with a slash, so that
// relative links work. If the directory has neither a listing nor an index, the answer is that it
// does not exist.
func (x *exchange) directoryWithoutSlash() {
	if !x.h.Listing && !x.hasIndex() {
		x.fail(fs.ErrNotExist)
		return
	}
	// The location is relative, because a handler in front of this one may have removed a prefix of
	// the path. It has only the last element, because a path that begins with two slashes would
	// name another host.
	to := url.URL{Path: path.Base(x.name) + "/", RawQuery: x.r.URL.RawQuery}
	x.set("Location", to.String())
	x.reply(http.StatusMovedPermanently, "it is a directory: its name ends in a slash")
}

func (x *exchange) hasIndex() bool {
	if x.h.Index == "" {
		return false
	}
	fi, err := x.acct.Store.Stat(x.ctx(), path.Join(x.name, x.h.Index))
	return err == nil && fi.Mode().IsRegular()
}

// directory answers with the directory's index. If the directory has no index, or the client wants
// the entries, the answer is a list of the entries.
func (x *exchange) directory() {
	var how listingQuery
	if x.h.Listing {
		how = directoryList{x}.listingQuery()
	}
	if x.h.Index != "" && !how.entries {
		name := path.Join(x.name, x.h.Index)
		f, err := x.acct.Store.Open(x.ctx(), name)
		switch {
		case err == nil:
			if x.h.Listing {
				x.set("Vary", "Accept")
			}
			delivery{x}.serveFile(f, name)
			return
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, store.ErrNotRegular):
		default:
			x.fail(err)
			return
		}
	}
	if x.h.Listing {
		directoryList{x}.list(how)
		return
	}
	x.fail(ErrNotListed)
}

// serveFile answers with a file and closes it.
func (x delivery) serveFile(f store.File, name string) {
	defer f.Close()
	x.Path = store.LocationOf(f).Path
	p, err := describe(f, "", x.Began)
	if err != nil {
		x.fail(err)
		return
	}
	if x.h.Precompressed && x.isTree() {
		x.vary("Accept-Encoding")
		if v, ok := x.variant(name, p); ok {
			defer v.file.Close()
			p = v
			x.set("Content-Encoding", p.coding)
			x.Coding = p.coding
			x.Path = store.LocationOf(p.file).Path
		}
	}
	x.Size = p.size
	x.set("Accept-Ranges", "bytes")
	if p.etag != "" {
		x.set("Etag", p.etag)
	}
	if !p.validators.modified.IsZero() {
		x.set("Last-Modified", p.validators.modified.UTC().Format(http.TimeFormat))
	}
	switch p.precondition(x.r.Method, x.r.Header, x.Began) {
	case http.StatusNotModified:
		x.writeHeader(http.StatusNotModified)
		return
	case http.StatusPreconditionFailed:
		x.fail(errCondition)
		return
	}
	mediaType := x.h.typeOf(name)
	x.sandbox(mediaType)
	x.content(p, mediaType)
}

// sandbox keeps uploaded files from acting with the rights of this server's pages: a browser runs
// no scripts in them, and gives them an origin of their own. Otherwise one user's page could read
// and write with another user's password. PDF is exempt, because browsers show it in a viewer that
// a sandbox would block.
func (x delivery) sandbox(mediaType string) {
	if (x.h.Users != nil || x.acct.Access.writes()) && mediaType != "application/pdf" {
		x.set("Content-Security-Policy", "sandbox allow-downloads")
	}
}

// content sends the file, or the requested parts of it.
func (x delivery) content(p representation, mediaType string) {
	ranges, ok := x.ranges(p)
	if ok && len(ranges) == 0 {
		x.set("Content-Range", "bytes */"+itoa(p.size))
		x.fail(errRange)
		return
	}
	status, off, n := http.StatusOK, int64(0), p.size
	switch {
	case !ok:
	case len(ranges) == 1:
		status, off, n = http.StatusPartialContent, ranges[0].first, ranges[0].n
		x.set("Content-Range", ranges[0].contentRange(p.size))
	default:
		x.multipart(p, mediaType, ranges)
		return
	}
	x.set("Content-Type", mediaType)
	x.set("Content-Length", itoa(n))
	if x.bodiless() {
		x.writeHeader(status)
		return
	}
	x.Status = status
	x.started()
	x.writeHeader(status)
	if err := x.send(p.file, off, n); err != nil {
		x.abort(err)
	}
}
