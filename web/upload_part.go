package web

import (
	"errors"
	"io/fs"
	"math"
	"net/http"
	"strings"

	"github.com/haul-project/haul/store"
)

// maxSource is how many bytes an Upload-Source may have.
const maxSource = 256

// An uploadPart is what a PUT brings of a file: the bytes from first to last, of
// total. One that brings nothing, and asks how much is there, has last before
// first.
type uploadPart struct{ first, last, total int64 }

func (p uploadPart) n() int64   { return p.last - p.first + 1 }
func (p uploadPart) asks() bool { return p.last < p.first }

// uploadPart returns the part that the request brings, or nil if it brings all.
func (x *exchange) uploadPart() (*uploadPart, error) {
	values := x.r.Header["Content-Range"]
	if len(values) == 0 {
		return nil, nil
	}
	x.Range = cut(values[0], maxTold)
	p, ok := parseUploadRange(values[0])
	if !ok || len(values) > 1 {
		return nil, errUploadRange
	}
	if n := x.r.ContentLength; n >= 0 && n != p.n() {
		return nil, errUploadRange
	}
	if len(x.r.Header.Get("Upload-Source")) > maxSource {
		return nil, errSource
	}
	return &p, nil
}

// parseUploadRange reads a Content-Range (RFC 9110 §14.4) of a request: "bytes
// 0-99/200", or "bytes */200", which asks. The size must be known.
func parseUploadRange(s string) (p uploadPart, ok bool) {
	unit, rest, _ := strings.Cut(s, " ")
	if !strings.EqualFold(unit, "bytes") {
		return p, false
	}
	span, size, _ := strings.Cut(rest, "/")
	// A number that does not fit is the largest there is, which is no size.
	if p.total, ok = digits(size); !ok || p.total <= 0 || p.total == math.MaxInt64 {
		return uploadPart{}, false
	}
	if span == "*" {
		p.last = -1
		return p, true
	}
	first, last, _ := strings.Cut(span, "-")
	var ok2 bool
	p.first, ok = digits(first)
	p.last, ok2 = digits(last)
	if !ok || !ok2 || p.last < p.first || p.last >= p.total {
		return uploadPart{}, false
	}
	return p, true
}

// receivePart takes a part of an upload (RFC 9110 §14.5), or says how much of it
// is there. If the connection is lost, the store keeps the part for the next one,
// if it can. With the last part the file is published.
func (x *exchange) receivePart(p *uploadPart, c store.Create, exists bool) error {
	c.Resume, c.Source = x.uploader(), x.r.Header.Get("Upload-Source")
	c.Parents = !p.asks() // to ask makes nothing
	u, err := x.acct.Store.Create(x.ctx(), x.name, c)
	if p.asks() && errors.Is(err, fs.ErrNotExist) {
		x.kept(0) // of a directory that is missing, too
		return nil
	}
	if err != nil {
		return err
	}
	defer u.Close() // keeps, unless committed
	x.Path = store.LocationOf(u)
	r, resumes := u.(store.Resumer)
	there := int64(0)
	if resumes {
		there = r.Resumed()
	}
	whole := p.last+1 == p.total
	switch {
	case p.asks():
		return x.keep(u, there)
	case !resumes && (p.first > 0 || !whole):
		return errNotResumable
	case p.first > there:
		x.offset(there)
		return errGap
	}
	x.started()
	if err := x.fill(u, p.first, p.n()); err != nil {
		return err
	}
	if whole {
		return x.publish(u, exists)
	}
	return x.keep(u, max(there, p.last+1))
}

// keep ends an upload that will be resumed, once what there is of it is safe, and
// says how much that is.
func (x *exchange) keep(u store.Upload, there int64) error {
	if err := u.Close(); err != nil {
		return err
	}
	x.kept(there)
	return nil
}

// kept answers how much of an upload is there.
func (x *exchange) kept(there int64) {
	x.offset(there)
	x.reply(http.StatusAccepted, "that much is there: see Upload-Offset")
}

// offset says how many bytes of an upload are there.
func (x *exchange) offset(n int64) { x.set("Upload-Offset", itoa(n)) }

// uploader says whose upload it is, so that no client resumes another's: a user's,
// or, without a user, an address's.
func (x *exchange) uploader() string {
	if x.acct.User != "" {
		return "http user " + x.acct.User
	}
	return "http peer " + x.Peer.Addr().Unmap().WithZone("").String()
}
