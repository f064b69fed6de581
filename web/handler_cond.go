package web

import (
	"crypto/sha256"
	"encoding/base64"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/haul-project/haul/store"
)

// settling is how long a file must be unchanged before its validators are strong. Until then it may
// change again and keep the same times: the kernel's clock for file times ticks every 4 ms or so,
// some file systems store whole seconds, and FAT stores only even seconds.
const settling = 2 * time.Second

// tagBytes is how many bytes of a hash an entity tag contains: enough to keep two versions of a file
// from ever having the same tag.
const tagBytes = 12

// validators distinguish the versions of a file (RFC 9110 §8.8).
type validators struct {
	exists   bool      // the file exists
	etag     string    // "" if the file has no ETag
	strong   bool      // etag and modified are strong validators: they change with any byte
	modified time.Time // in whole seconds; zero if unknown
	changed  time.Time // last change recorded by the system; zero if unknown
}

// precondition evaluates the conditions of a request in the order of RFC 9110 §13.2.2. It returns
// 412 or 304 if that is the answer, and 0 if the request is to be carried out. An If-Modified-Since
// that lies in the future is ignored like an invalid one (§13.1.3), because no server has sent it.
// Otherwise a client that took the date from a clock that was ahead would see no change until that
// date.
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

// conditional reports whether a request has conditions that also apply to methods other than GET
// and HEAD.
func conditional(h http.Header) bool {
	return len(h["If-Match"]) > 0 || len(h["If-None-Match"]) > 0 || len(h["If-Unmodified-Since"]) > 0
}

// date returns the value of a header field that is a date. It returns false if the field is
// missing, or is invalid and must be ignored (RFC 9110 §13.1.3).
func date(h http.Header, key string) (time.Time, bool) {
	values := h[key]
	if len(values) != 1 {
		return time.Time{}, false
	}
	t, err := http.ParseTime(values[0])
	return t, err == nil
}

// matches reports whether v's entity tag is in a list of tags. Strong comparison accepts no weak
// tags; weak comparison ignores whether tags are weak (RFC 9110 §8.8.3.2). "*" matches any existing
// version. The rest of a field after an invalid tag is ignored.
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

// inRange reports whether the request has no If-Range, or one that names this version. Only then
// does its Range apply (RFC 9110 §13.1.5).
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
	t, err := http.ParseTime(s) // this also fails for a weak entity tag
	return err == nil && v.strong && !v.modified.IsZero() && t.Equal(v.modified)
}

// A representation is the content of an answer: a file, or a precompressed variant of it (RFC 9110
// §3.2).
type representation struct {
	file     store.File
	size     int64
	modified time.Time // the file's modification time, not rounded
	coding   string    // the content coding of the file; "" if it has none
	validators
}

// describe returns the representation of an open file.
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
// An entity tag is strong if it changes whenever the content does (RFC 9110 §8.8.1). The operating
// system's record of an open file ([store.Identity]) is good enough for that, because no program
// can set the time of change. If the store has no such record, the tag depends on the size and the
// time of modification. It is strong if the time is finer than a second, because then only a copy
// that keeps both the size and the nanoseconds has the same tag. In both cases, the tag of a file
// that has only just changed is not strong. A version that another server provides is always
// strong.
func validatorsOf(f store.File, fi fs.FileInfo, coding string, now time.Time) validators {
	modified := fi.ModTime()
	changed, systemTime := modified, time.Time{}
	strong := modified.Nanosecond() != 0
	var sum [sha256.Size]byte
	id, ok := store.Identity{}, false
	if i, can := store.As[store.Identifier](f); can {
		id, ok = i.Identity()
	}
	version := ""
	if v, can := store.As[store.Versioned](f); can {
		version = v.Version()
	}
	switch {
	case ok:
		systemTime = id.Changed()
		sum, changed, strong = id.Digest(), systemTime, true
		if changed.Before(modified) {
			changed = modified
		}
	case version != "": // a store returns a version only if the upstream distinguishes all versions
		sum = sha256.Sum256([]byte(version))
		changed, strong = time.Time{}, true
	case modified.IsZero():
		return validators{exists: true}
	default:
		var b [40]byte
		sum = sha256.Sum256(strconv.AppendInt(append(strconv.AppendInt(b[:0], fi.Size(), 16), '-'), modified.UnixNano(), 16))
	}
	v := validators{exists: true, strong: strong && now.Sub(changed) >= settling, changed: systemTime}
	v.etag = tagOf(sum, coding, v.strong)
	if !modified.IsZero() && modified.Unix() != 0 { // stores return these values if they do not know the time
		v.modified = modified
		if v.modified.After(now) { // RFC 9110 §8.8.2.1 forbids a Last-Modified in the future
			v.modified = now
		}
		v.modified = v.modified.Truncate(time.Second)
	}
	return v
}

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

// olderThan reports whether p is older than another representation, by modification time or by time
// of change. The modification time is not enough: a new version of a file often has the time of its
// source (cp -p, rsync -a), which may be before the variant's.
func (p representation) olderThan(other representation) bool {
	return p.modified.Before(other.modified) ||
		!p.changed.IsZero() && !other.changed.IsZero() && p.changed.Before(other.changed)
}

// named reports whether the request names this version of the file by its entity tag.
func (p representation) named(h http.Header) bool {
	if len(h["If-Range"]) > 0 {
		return p.inRange(h) && strings.Contains(h["If-Range"][0], `"`)
	}
	return p.etag != "" && p.matches(h["If-Match"], true) && !strings.Contains(strings.Join(h["If-Match"], ","), "*")
}
