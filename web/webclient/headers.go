package webclient

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/haul-project/haul/internal/servertext"
)

// A contentRange is the value of a Content-Range (RFC 9110 §14.4).
type contentRange struct {
	first, last int64 // the range; both are -1 if it could not be satisfied
	total       int64 // size of the whole file; -1 if not given
}

// parseContentRange parses a Content-Range. Units other than bytes, signs, inner blanks, and
// contradictory ranges are errors.
func parseContentRange(s string) (contentRange, error) {
	r := contentRange{-1, -1, -1}
	unit, spec, ok := strings.Cut(strings.TrimSpace(s), " ")
	if !ok || !strings.EqualFold(unit, "bytes") {
		return r, fmt.Errorf("the Content-Range %q: it does not begin with bytes", servertext.Cut(s))
	}
	span, total, ok := strings.Cut(spec, "/")
	if !ok {
		return r, fmt.Errorf("the Content-Range %q: it has no slash", servertext.Cut(s))
	}
	var err error
	if total != "*" {
		r.total, err = parseLength(total)
	}
	if err == nil && span != "*" {
		first, last, _ := strings.Cut(span, "-")
		if r.first, err = parseLength(first); err == nil {
			r.last, err = parseLength(last)
		}
		if err == nil && (r.last < r.first || r.total >= 0 && r.last >= r.total) {
			err = errors.New("the range ends before it begins, or behind the end")
		}
	}
	if err == nil && span == "*" && total == "*" {
		err = errors.New("it says nothing")
	}
	if err != nil {
		return contentRange{-1, -1, -1}, fmt.Errorf("the Content-Range %q: %w", servertext.Cut(s), err)
	}
	return r, nil
}

// parseLength parses a number of bytes: digits, and nothing else.
func parseLength(s string) (int64, error) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, fmt.Errorf("%q is no number", servertext.Cut(s))
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n == math.MaxInt64 {
		return 0, fmt.Errorf("%q is too large", servertext.Cut(s))
	}
	return n, nil
}

// parseRetryAfter returns the duration of a Retry-After, which is a number of seconds or a date. It
// returns false if s is empty or invalid.
func parseRetryAfter(s string, now time.Time) (time.Duration, bool) {
	if s == "" {
		return 0, false
	}
	if n, err := parseLength(s); err == nil {
		return time.Duration(min(n, int64(math.MaxInt64/time.Second))) * time.Second, true
	}
	t, err := http.ParseTime(s)
	if err != nil {
		return 0, false
	}
	return max(t.Sub(now).Round(time.Second), 0), true
}

// A version holds an answer's data about the version of a file.
type version struct {
	etag     string // the ETag as sent, strong or weak
	modified string // Last-Modified, as sent
	strong   bool   // modified is a strong validator
	size     int64  // size of the whole file; -1 if unknown
}

// versionOf reads the validators of an answer. size is the size of the whole file.
func versionOf(h http.Header, size int64) version {
	v := version{etag: h.Get("ETag"), modified: h.Get("Last-Modified"), size: size}
	if !isETag(v.etag) {
		v.etag = ""
	}
	modified, err := http.ParseTime(v.modified)
	if err != nil {
		v.modified = ""
		return v
	}
	// A file that is written twice within one second has the same date both times, so a recent date
	// is not a strong validator: RFC 9110 §8.8.2.2.
	date, err := http.ParseTime(h.Get("Date"))
	v.strong = err == nil && !modified.After(date.Add(-time.Second))
	return v
}

// isETag reports whether s is an entity tag (RFC 9110 §8.8.3).
func isETag(s string) bool {
	tag, ok := strings.CutPrefix(strings.TrimPrefix(s, "W/"), `"`)
	tag, end := strings.CutSuffix(tag, `"`)
	return ok && end && !strings.ContainsFunc(tag, func(r rune) bool { return r <= ' ' || r == '"' || r == 0x7f })
}

// guard returns the value of an If-Range that excludes parts of another version, or "" if the
// server sends nothing that distinguishes versions.
func (v version) guard() string {
	switch {
	case v.etag != "" && !strings.HasPrefix(v.etag, "W/"):
		return v.etag
	case v.strong:
		return v.modified
	}
	return ""
}

// key returns a string that is the same for two files only if they are the same version of one
// file. It is "" if the server sends nothing that distinguishes versions.
func (v version) key() string {
	if v.guard() == "" {
		return ""
	}
	return v.guard() + " " + v.modified
}

// same reports whether v and o can be the same version. It ignores a value that v or o lacks.
// Entity tags are compared weakly (RFC 9110 §8.8.3.2), because the weak tag of a file that was just
// written becomes strong.
func (v version) same(o version) bool {
	return (v.etag == "" || o.etag == "" || strings.TrimPrefix(v.etag, "W/") == strings.TrimPrefix(o.etag, "W/")) &&
		(v.modified == "" || o.modified == "" || v.modified == o.modified) &&
		(v.size < 0 || o.size < 0 || v.size == o.size)
}

// continues reports whether an answer with the whole file certainly has the same version, so that a
// transfer can continue with it. A server may answer a request for a range of one version with the
// whole of another version.
func (v version) continues(o version) bool {
	switch guard := v.guard(); {
	case !v.same(o):
		return false
	case guard == "":
		return true // nothing else can be compared
	case guard == v.etag:
		return o.etag == guard
	}
	return o.modified == v.modified
}

// time returns the time of modification, or the zero time if unknown.
func (v version) time() time.Time {
	t, _ := http.ParseTime(v.modified)
	return t
}

// digestOf returns the SHA-256 of the whole file if an answer's headers contain it: in Repr-Digest
// (RFC 9530), or in the older field Digest (RFC 3230).
func digestOf(h http.Header) []byte {
	for _, form := range []struct {
		header, before, after string
	}{{"Repr-Digest", ":", ":"}, {"Digest", "", ""}} {
		for _, all := range h.Values(form.header) {
			for one := range strings.SplitSeq(all, ",") {
				name, value, _ := strings.Cut(strings.TrimSpace(one), "=")
				value, begins := strings.CutPrefix(value, form.before)
				value, ends := strings.CutSuffix(value, form.after)
				if !strings.EqualFold(name, "sha-256") || !begins || !ends {
					continue
				}
				if sum, err := base64.StdEncoding.DecodeString(value); err == nil && len(sum) == 32 {
					return sum
				}
			}
		}
	}
	return nil
}
