package web

import (
	"net/http"
	"strings"
	"time"
)

// validators distinguish the versions of a file (RFC 9110 §8.8).
type validators struct {
	exists   bool      // there is a file
	etag     string    // "" if there is none
	strong   bool      // both hold to the byte
	modified time.Time // in whole seconds; zero if unknown
	changed  time.Time // last change recorded by the system; zero if unknown
}

// precondition holds the conditions of a request against what there is, in the
// order of RFC 9110 §13.2.2. It returns 412 or 304 if that is the answer, and 0 if
// the request is to be done. An If-Modified-Since that is later than now is no date
// that a server has sent, and is ignored like one that is not valid (§13.1.3): a
// clock that was ahead once would keep the client from every change until then.
func (v validators) precondition(method string, h http.Header, now time.Time) int {
	reads := method == http.MethodGet || method == http.MethodHead
	if tags, ok := h["If-Match"]; ok {
		if !v.matches(tags, true) {
			return http.StatusPreconditionFailed
		}
	} else if t, ok := date(h, "If-Unmodified-Since"); ok && !v.modified.IsZero() && v.modified.After(t) {
		return http.StatusPreconditionFailed
	}
	if tags, ok := h["If-None-Match"]; ok {
		if v.matches(tags, false) {
			if reads {
				return http.StatusNotModified
			}
			return http.StatusPreconditionFailed
		}
	} else if t, ok := date(h, "If-Modified-Since"); ok && reads && !t.After(now) && !v.modified.IsZero() && !v.modified.After(t) {
		return http.StatusNotModified
	}
	return 0
}

// conditional reports whether a request has conditions that matter to methods
// other than GET.
func conditional(h http.Header) bool {
	return len(h["If-Match"]) > 0 || len(h["If-None-Match"]) > 0 || len(h["If-Unmodified-Since"]) > 0
}

// date returns a field that is a date, and false if it is missing or no date: then
// it is to be ignored (RFC 9110 §13.1.3).
func date(h http.Header, key string) (time.Time, bool) {
	values := h[key]
	if len(values) != 1 {
		return time.Time{}, false
	}
	t, err := http.ParseTime(values[0])
	return t, err == nil
}

// matches reports whether one of a list of entity tags is v's. Strong comparison
// takes no weak ones; weak comparison ignores whether they are weak (RFC 9110
// §8.8.3.2). "*" is any version that there is. Anything that follows something
// that is no entity tag does not count.
func (v validators) matches(fields []string, strong bool) bool {
	for _, field := range fields {
		rest := field
		for {
			rest = strings.TrimLeft(rest, " \t,")
			if rest == "" {
				break
			}
			if rest[0] == '*' {
				return v.exists
			}
			tag, after, ok := cutTag(rest)
			if !ok {
				break
			}
			rest = after
			if v.etag == "" {
				continue
			}
			if strong && tag == v.etag && tag[0] == '"' {
				return true
			}
			if !strong && strings.TrimPrefix(tag, "W/") == strings.TrimPrefix(v.etag, "W/") {
				return true
			}
		}
	}
	return false
}

// cutTag cuts an entity tag off the beginning of s (RFC 9110 §8.8.3).
func cutTag(s string) (tag, rest string, ok bool) {
	start := 0
	if strings.HasPrefix(s, "W/") {
		start = 2
	}
	if len(s) <= start || s[start] != '"' {
		return "", "", false
	}
	for i := start + 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return s[:i+1], s[i+1:], true
		case c <= ' ' || c == 0x7f:
			return "", "", false
		}
	}
	return "", "", false
}

// inRange reports whether the If-Range of a request, if it has one, is for this
// version: then its Range holds (RFC 9110 §13.1.5).
func (v validators) inRange(h http.Header) bool {
	values := h["If-Range"]
	switch len(values) {
	case 0:
		return true
	case 1:
	default:
		return false
	}
	s := strings.Trim(values[0], " \t")
	if strings.HasPrefix(s, `"`) {
		return v.strong && s == v.etag
	}
	t, err := http.ParseTime(s) // of a weak entity tag, too, this is an error
	return err == nil && v.strong && !v.modified.IsZero() && t.Equal(v.modified)
}
