package webclient

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/servertext"
)

func TestContentRange(t *testing.T) {
	for s, want := range map[string]contentRange{
		"bytes 0-0/1":        {0, 0, 1},
		"Bytes 5-9/10":       {5, 9, 10},
		"bytes 5-9/*":        {5, 9, -1},
		"bytes */10":         {-1, -1, 10},
		" bytes 007-08/100 ": {7, 8, 100},
	} {
		if got, err := parseContentRange(s); err != nil || got != want {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{
		"", "bytes", "bytes ", "0-1/2", "items 0-1/2", "bytes 0-1", "bytes 1-0/2", "bytes 0-2/2", "bytes */*", "bytes -1/2", "bytes 0-/2", "bytes 0-1/-2",
		"bytes +0-1/2", "bytes 0 -1/2", "bytes 0-1/2/3", "bytes 0-1/2,3", "bytes 0-9223372036854775807/*", "bytes 0-1/99999999999999999999", "bytes 0-1-2/3",
	} {
		if got, err := parseContentRange(s); err == nil {
			t.Errorf("%q is taken for %v", s, got)
		}
	}
}

func FuzzContentRange(f *testing.F) {
	for _, s := range []string{"bytes 0-0/1", "bytes 5-9/*", "bytes */10", "bytes 1-0/2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseContentRange(s)
		if err != nil {
			if r != (contentRange{-1, -1, -1}) {
				t.Fatalf("%q: %v with an error", s, r)
			}
			return
		}
		if r.first > r.last || (r.first < 0) != (r.last < 0) || r.total >= 0 && r.last >= r.total || r.first < 0 && r.total < 0 {
			t.Fatalf("%q: %v", s, r)
		}
		text := fmt.Sprintf("bytes %d-%d/", r.first, r.last)
		if r.first < 0 {
			text = "bytes */"
		}
		if text += "*"; r.total >= 0 {
			text = strings.TrimSuffix(text, "*") + fmt.Sprint(r.total)
		}
		if again, err := parseContentRange(text); err != nil || again != r {
			t.Fatalf("%q, as %q: %v, %v", s, text, again, err)
		}
	})
}

func TestRetryAfterHeader(t *testing.T) {
	now := labTime
	for s, want := range map[string]time.Duration{
		"0": 0, "120": 2 * time.Minute, "Fri, 02 Jan 2026 03:05:05 GMT": time.Minute, "Fri, 02 Jan 2026 03:00:00 GMT": 0,
		"99999999999999": time.Duration(9223372036) * time.Second,
	} {
		if got, ok := parseRetryAfter(s, now); !ok || got != want {
			t.Errorf("%q: %v, %v", s, got, ok)
		}
	}
	for _, s := range []string{"", "-1", "soon", "1.5"} {
		if got, ok := parseRetryAfter(s, now); ok {
			t.Errorf("%q is taken for %v", s, got)
		}
	}
}

func FuzzListing(f *testing.F) {
	f.Add(`[{"name":"a","type":"file","size":5,"mtime":"2026-01-02T03:04:05Z"}]`)
	f.Add(`{"x":[1],"entries":[{"name":"d/","is_dir":true}]}`)
	f.Add(`[{"name":"..","size":-1}]`)
	f.Fuzz(func(t *testing.T, s string) {
		list, err := decodeListing(strings.NewReader(s))
		if err != nil && list != nil {
			t.Fatal("entries with an error")
		}
		for i, fi := range list {
			if i > 0 && list[i-1].Name() >= fi.Name() {
				t.Fatalf("%q and %q are not in order", list[i-1].Name(), fi.Name())
			}
			if fi.Size() < -1 {
				t.Fatalf("%d bytes", fi.Size())
			}
		}
	})
}

func FuzzRealm(f *testing.F) {
	f.Add(`Digest realm="x", Basic realm="y"`)
	f.Fuzz(func(t *testing.T, s string) {
		realm, _ := basicRealm([]string{s})
		if len(realm) > 3*servertext.Max || strings.ContainsAny(realm, "\x1b\r\n\x00") {
			t.Fatalf("%q", realm)
		}
	})
}

func TestVersions(t *testing.T) {
	header := func(pairs ...string) (h map[string][]string) {
		h = map[string][]string{"Date": {"Fri, 02 Jan 2026 03:04:05 GMT"}}
		for i := 0; i < len(pairs); i += 2 {
			h[pairs[i]] = []string{pairs[i+1]}
		}
		return h
	}
	const before, now = "Fri, 02 Jan 2026 03:04:04 GMT", "Fri, 02 Jan 2026 03:04:05 GMT"
	for _, c := range []struct {
		h     map[string][]string
		guard string
	}{
		{header(), ""},
		{header("Etag", `"a"`), `"a"`},
		{header("Etag", `W/"a"`), ""},
		{header("Etag", `a`), ""},
		{header("Etag", "\"a b\""), ""},
		{header("Last-Modified", before), before},
		{header("Last-Modified", now), ""},
		{header("Last-Modified", "yesterday"), ""},
		{header("Etag", `W/"a"`, "Last-Modified", before), before},
		{header("Etag", `"a"`, "Last-Modified", now), `"a"`},
		{map[string][]string{"Last-Modified": {before}}, ""}, // without a Date, the age of the file is unknown
	} {
		v := versionOf(c.h, 5)
		if v.guard() != c.guard || (v.key() == "") != (c.guard == "") {
			t.Errorf("%v: guard %q, key %q", c.h, v.guard(), v.key())
		}
	}
}

// The weak tag of a file that was just written becomes strong a moment later. That is no change.
func TestSameVersion(t *testing.T) {
	for _, test := range []struct {
		opened, answered string
		same             bool
	}{
		{`W/"a"`, `"a"`, true},
		{`"a"`, `W/"a"`, true},
		{`W/"a"`, `W/"a"`, true},
		{`"a"`, `"a"`, true},
		{`W/"a"`, "", true},
		{`W/"a"`, `"b"`, false},
		{`W/"a"`, `W/"b"`, false},
		{`"a"`, `"b"`, false},
	} {
		opened, answered := version{etag: test.opened, size: -1}, version{etag: test.answered, size: 5}
		if got := opened.same(answered); got != test.same {
			t.Errorf("%s and %s are the same: %v", test.opened, test.answered, got)
		}
	}
}

func TestBoundedReader(t *testing.T) {
	r := &boundedReader{r: strings.NewReader("12345"), left: 3}
	b, err := io.ReadAll(r)
	wantIs(t, "read", err, ErrProtocol)
	if string(b) != "123" {
		t.Errorf("%q", b)
	}
}
