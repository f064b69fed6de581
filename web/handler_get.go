package web

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"time"

	"github.com/haul-project/haul/store"
)

// settling is for how long a file has to be left alone before its validators are
// strong ones. Until then it may change again without its times showing it: the
// kernel's clock for them ticks every 4 ms or so, some file systems keep whole
// seconds, and FAT every other one.
const settling = 2 * time.Second

// A representation is what an answer sends: a file, or a precompressed variant of
// it (RFC 9110 §3.2).
type representation struct {
	file     store.File
	size     int64
	modified time.Time // as the file has it
	coding   string    // its content coding, or ""
	validators
}

// describe returns what a file is as a representation.
func describe(f store.File, coding string, now time.Time) (representation, error) {
	fi, err := f.Stat()
	if err != nil {
		return representation{}, err
	}
	p := representation{file: f, size: fi.Size(), modified: fi.ModTime(), coding: coding}
	p.validators = validatorsOf(f, fi, coding, now)
	return p, nil
}

// validatorsOf returns the validators of a file.
//
// An entity tag is strong if it changes whenever the content does (RFC 9110
// §8.8.1). The system's record of an open file is good for that, since no program
// can set its time of change. Where a store has no such record, size and time of
// modification have to do; they do if the time is finer than a second, as only a
// copy with its size and its nanoseconds has it too. Neither holds for a file
// that has only just changed.
func validatorsOf(f store.File, fi fs.FileInfo, coding string, now time.Time) validators {
	modified := fi.ModTime()
	changed, told := modified, time.Time{}
	strong := modified.Nanosecond() != 0
	var sum [sha256.Size]byte
	id, ok := store.Identity{}, false
	if i, can := f.(store.Identifier); can {
		id, ok = i.Identity()
	}
	switch {
	case ok:
		told = id.Changed()
		sum, changed, strong = id.Digest(), told, true
		if changed.Before(modified) {
			changed = modified
		}
	case modified.IsZero():
		return validators{exists: true}
	default:
		var b [40]byte
		sum = sha256.Sum256(strconv.AppendInt(append(strconv.AppendInt(b[:0], fi.Size(), 16), '-'), modified.UnixNano(), 16))
	}
	v := validators{exists: true, strong: strong && now.Sub(changed) >= settling, changed: told}
	v.etag = tagOf(sum, coding, v.strong)
	if !modified.IsZero() && modified.Unix() != 0 { // a store that does not know says so in these ways
		v.modified = modified
		if v.modified.After(now) { // RFC 9110 §8.8.2.1
			v.modified = now
		}
		v.modified = v.modified.Truncate(time.Second)
	}
	return v
}

// tagBytes is how much of a hash makes an entity tag: enough that no two versions
// of a file will ever have the same.
const tagBytes = 12

// tagOf returns an entity tag (RFC 9110 §8.8.3).
func tagOf(sum [sha256.Size]byte, coding string, strong bool) string {
	var b [40]byte
	tag := b[:0]
	if !strong {
		tag = append(tag, "W/"...)
	}
	tag = append(tag, '"')
	tag = base64.RawURLEncoding.AppendEncode(tag, sum[:tagBytes])
	if coding != "" {
		tag = append(append(tag, '-'), coding...)
	}
	return string(append(tag, '"'))
}

// get answers GET and HEAD.
func (x *exchange) get() {
	if x.dir {
		x.directory()
		return
	}
	f, err := x.acct.Store.Open(x.ctx(), x.name)
	if err == nil {
		x.serveFile(f, x.name)
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

// directoryWithoutSlash sends who asks for a directory where its entries are, so
// that names relative to it mean what they should. One of which there is nothing
// to see is as good as not there.
func (x *exchange) directoryWithoutSlash() {
	if !x.h.Listing && !x.hasIndex() {
		x.fail(fs.ErrNotExist)
		return
	}
	// Relative, as whoever handles requests before us may have taken a prefix
	// off the path; and without the path, which might begin with two slashes.
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

// directory answers for a directory: by its index, unless its entries are asked for,
// or by a list of them.
func (x *exchange) directory() {
	if x.h.Index != "" && (!x.h.Listing || !x.listingQuery().entries) {
		name := path.Join(x.name, x.h.Index)
		f, err := x.acct.Store.Open(x.ctx(), name)
		switch {
		case err == nil:
			if x.h.Listing {
				x.set("Vary", "Accept")
			}
			x.serveFile(f, name)
			return
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, store.ErrNotRegular):
		default:
			x.fail(err)
			return
		}
	}
	if x.h.Listing {
		x.list()
		return
	}
	x.fail(ErrNotListed)
}

// serveFile answers with a file, and closes it.
func (x *exchange) serveFile(f store.File, name string) {
	defer f.Close()
	x.Path = store.LocationOf(f)
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
			x.Path = store.LocationOf(p.file)
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

// sandbox keeps what others may have uploaded from acting as this server: a browser
// that shows it runs no scripts, and gives it an origin of its own. Otherwise a page
// of one user could read and write with the password of another. PDF is shown by a
// program of its own, which a sandbox would not start.
func (x *exchange) sandbox(mediaType string) {
	if (x.h.Users != nil || x.acct.Access.writes()) && mediaType != "application/pdf" {
		x.set("Content-Security-Policy", "sandbox allow-downloads")
	}
}

// content sends the file, or the parts of it that were asked for.
func (x *exchange) content(p representation, mediaType string) {
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
