package web

import (
	"io/fs"
	"math"
	"net/url"
	"strings"
	"testing"
)

// A path yields a name that is valid in a store and does not lead out of it, or an error.
func FuzzName(f *testing.F) {
	for _, s := range []string{"/", "/a/b", "//a", "/a/./b/", `/a\b`, "/%2e%2e/x", "/a%2fb", "/%00", "/%ff", "*", "", "http://h/a", "http:a", "/..;/x", "/a/..", "/ ", "/%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		name, dir, err := nameOf(u)
		if err != nil {
			if name != "" || dir {
				t.Errorf("%q: %v, and %q, %v", target, err, name, dir)
			}
			return
		}
		switch {
		case !fs.ValidPath(strings.ToValidUTF8(name, "?")), strings.ContainsAny(name, "\x00\\"), len(name) > maxPath:
			t.Errorf("%q is %q", target, name)
		case name == "." && !dir:
			t.Errorf("%q is the root, and no directory", target)
		}
		// No other path has that name.
		path := "/" + name
		if dir && name != "." {
			path += "/"
		} else if name == "." {
			path = "/"
		}
		if u.Path != path && u.Path != "" {
			t.Errorf("%q is %q, as is %q", target, name, path)
		}
	})
}

// A range always lies within the file.
func FuzzRange(f *testing.F) {
	for _, s := range []string{"bytes=0-0", "bytes=5-", "bytes=-5", "bytes=1-2,3-4", "bytes=", "x=1-2", "bytes=99999999999999999999-", "bytes=1-99999999999999999999"} {
		f.Add(s, int64(10))
		f.Add(s, int64(math.MaxInt64))
	}
	f.Fuzz(func(t *testing.T, field string, size int64) {
		if size < 0 {
			return
		}
		ranges, ok := requestedRanges(field, size)
		if !ok && len(ranges) > 0 || len(ranges) > maxRanges {
			t.Errorf("%q: %v, %v", field, ranges, ok)
		}
		for _, r := range ranges {
			if r.first < 0 || r.n <= 0 || r.first > size-r.n {
				t.Errorf("%q of %d bytes: %+v", field, size, r)
			}
		}
	})
}

// A part always lies within the upload, and is the same after it is formatted and parsed again.
func FuzzUploadRange(f *testing.F) {
	for _, s := range []string{"bytes 0-9/10", "bytes */10", "bytes 5-4/10", "bytes 0-9/*", "bytes 0-9223372036854775806/9223372036854775807", "bytes", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, field string) {
		p, ok := parseUploadRange(field)
		if !ok {
			return
		}
		if p.total <= 0 || p.first < 0 || p.last >= p.total || p.n() < 0 {
			t.Fatalf("%q is %+v", field, p)
		}
		said := "bytes " + itoa(p.first) + "-" + itoa(p.last) + "/" + itoa(p.total)
		if p.asks() {
			said = "bytes */" + itoa(p.total)
		}
		if again, ok := parseUploadRange(said); !ok || again != p {
			t.Errorf("%q is %+v, and %q is %+v, %v", field, p, said, again, ok)
		}
	})
}

// Conditions are parsed completely, and a tag that does not occur matches nothing but "*".
func FuzzEntityTags(f *testing.F) {
	for _, s := range []string{`"a"`, `W/"a", "b"`, "*", `"`, `W/`, `,,"a" "b"`, "\"\x00\""} {
		f.Add(s, `"a"`)
	}
	f.Fuzz(func(t *testing.T, field, tag string) {
		v := validators{exists: true, etag: tag, strong: true}
		strong, weak := v.matches([]string{field}, true), v.matches([]string{field}, false)
		if strong && !weak {
			t.Errorf("%q is %q strongly, but not weakly", field, tag)
		}
		if weak && !strings.Contains(field, strings.TrimPrefix(tag, "W/")) && !strings.Contains(field, "*") {
			t.Errorf("%q is %q", field, tag)
		}
		if q, _ := quality([]string{field}, tag); q < 0 || q > 1000 {
			t.Errorf("%q wants %q by %d", field, tag, q)
		}
	})
}
