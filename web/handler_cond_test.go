package web_test

import (
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/web"
)

const (
	modified = "Fri, 02 Jan 2026 03:04:05 GMT"
	before   = "Fri, 02 Jan 2026 03:04:04 GMT"
	after    = "Fri, 02 Jan 2026 03:04:06 GMT"
	future   = "Fri, 31 Dec 2999 23:59:59 GMT"
	other    = `"another"`
)

// RFC 9110 §13: conditions, and their order of precedence.
func TestConditions(t *testing.T) {
	h := &web.Handler{Precompressed: true, Store: mem(t, map[string]string{"f": digits20})}
	tag := ask(t, h, "HEAD /f", "").header.Get("Etag")
	if !strings.HasPrefix(tag, `"`) || !strings.HasSuffix(tag, `"`) || len(tag) < 10 {
		t.Fatalf("the entity tag is %s", tag)
	}
	tests := []struct {
		status int
		fields []string
	}{
		{200, []string{"If-Match: " + tag}},
		{200, []string{"If-Match: *"}},
		{200, []string{"If-Match: " + other + ", " + tag}},
		{200, []string{"If-Match: " + other, "If-Match: " + tag}},
		{412, []string{"If-Match: " + other}},
		{412, []string{"If-Match: W/" + tag}}, // compared strongly
		{412, []string{"If-Match: "}},
		{412, []string{"If-Match: nonsense " + tag}},
		{412, []string{"If-Match: " + strings.Trim(tag, `"`)}},
		{304, []string{"If-None-Match: " + tag}},
		{304, []string{"If-None-Match: W/" + tag}}, // compared weakly
		{304, []string{"If-None-Match: *"}},
		{304, []string{"If-None-Match: " + other + " ,, " + tag}},
		{200, []string{"If-None-Match: " + other}},
		{200, []string{"If-None-Match: W/" + other}},
		{304, []string{"If-Modified-Since: " + modified}},
		{304, []string{"If-Modified-Since: " + after}},
		{304, []string{"If-Modified-Since: Friday, 02-Jan-26 03:04:05 GMT"}}, // RFC 850's form
		{304, []string{"If-Modified-Since: Fri Jan  2 03:04:05 2026"}},       // asctime's
		{200, []string{"If-Modified-Since: " + before}},
		{200, []string{"If-Modified-Since: nonsense"}},
		{200, []string{"If-Modified-Since: " + future}},
		{200, []string{"If-Modified-Since: " + modified, "If-Modified-Since: " + modified}},
		{200, []string{"If-Unmodified-Since: " + modified}},
		{200, []string{"If-Unmodified-Since: " + after}},
		{412, []string{"If-Unmodified-Since: " + before}},
		{200, []string{"If-Unmodified-Since: nonsense"}},
		// An entity tag takes precedence over a date: §13.2.2.
		{200, []string{"If-Match: " + tag, "If-Unmodified-Since: " + before}},
		{412, []string{"If-Match: " + other, "If-Unmodified-Since: " + after}},
		{200, []string{"If-None-Match: " + other, "If-Modified-Since: " + after}},
		{304, []string{"If-None-Match: " + tag, "If-Modified-Since: " + before}},
		{304, []string{"If-Match: " + tag, "If-None-Match: " + tag}},
		{412, []string{"If-Match: " + other, "If-None-Match: " + tag}},
		// Conditions take precedence over ranges.
		{206, []string{"If-Match: " + tag, "Range: bytes=0-1"}},
		{412, []string{"If-Match: " + other, "Range: bytes=0-1"}},
		{304, []string{"If-None-Match: " + tag, "Range: bytes=0-1"}},
		// If-Range: §13.1.5.
		{206, []string{"If-Range: " + tag, "Range: bytes=0-1"}},
		{206, []string{"If-Range: " + modified, "Range: bytes=0-1"}},
		{200, []string{"If-Range: " + other, "Range: bytes=0-1"}},
		{200, []string{"If-Range: W/" + tag, "Range: bytes=0-1"}},
		{200, []string{"If-Range: " + before, "Range: bytes=0-1"}},
		{200, []string{"If-Range: " + after, "Range: bytes=0-1"}}, // the date must be equal, not just later
		{200, []string{"If-Range: nonsense", "Range: bytes=0-1"}},
		{200, []string{"If-Range: " + tag, "If-Range: " + tag, "Range: bytes=0-1"}},
		{200, []string{"If-Range: " + other, "Range: bytes=90-"}}, // and no 416
		{416, []string{"If-Range: " + tag, "Range: bytes=90-"}},
		{200, []string{"If-Range: " + tag}},
	}
	for _, test := range tests {
		body := map[int]string{200: digits20, 206: "01", 304: "", 412: "a condition of the request does not hold\n", 416: "*"}[test.status]
		a := ask(t, h, "GET /f", "", test.fields...)
		a.want(t, test.status, body)
		if test.status == 200 || test.status == 206 || test.status == 304 {
			a.wantField(t, "Etag", tag) // §15.4.5
			a.wantField(t, "Vary", "Accept-Encoding")
		}
		if test.status == 304 {
			a.wantField(t, "Content-Length", "")
		}
		headStatus := test.status
		if headStatus == 206 || headStatus == 416 {
			headStatus = 200
		}
		ask(t, h, "HEAD /f", "", test.fields...).want(t, headStatus, "")
		if t.Failed() {
			t.Fatalf("%q", test.fields)
		}
	}
	// Conditions do not apply to errors.
	for _, field := range []string{"If-Match: *", "If-None-Match: *"} {
		ask(t, h, "GET /missing", "", field).want(t, 404, "*")
	}
}

// Different content has a different tag, which is strong only if that is certain.
func TestEntityTags(t *testing.T) {
	st := mem(t, map[string]string{"f": "one"})
	h := &web.Handler{Store: st}
	tag := func(name string) string {
		t.Helper()
		a := ask(t, h, "HEAD /"+name, "")
		a.want(t, 200, "")
		return a.header.Get("Etag")
	}
	first := tag("f")
	put(t, st, "f", "other")
	second := tag("f")
	if second == first {
		t.Error("other content has the same tag")
	}
	touch(t, st, "f", old.Add(time.Nanosecond))
	if third := tag("f"); third == second {
		t.Error("content of the same size, a nanosecond younger, has the same tag")
	}
	for what, age := range map[string]time.Duration{
		"just modified":          time.Millisecond,
		"modified in the future": -time.Hour,
		"of a whole second":      0, // a copy of another file may have such a time
	} {
		// If this machine is busy, the modification may have become too old by now.
		for tries, late := 0, true; late && tries < 5; tries++ {
			began := time.Now()
			at := began.Add(-age)
			if age == 0 {
				at = old.Truncate(time.Second)
			}
			touch(t, st, "f", at)
			got := tag("f")
			// With a weak tag, parts of the file may belong to two versions.
			a := ask(t, h, "GET /f", "", "Range: bytes=0-1", "If-Range: "+got)
			if late = time.Since(began) > time.Second; late {
				continue
			}
			if !strings.HasPrefix(got, `W/"`) {
				t.Errorf("%s: the tag is %s, and not weak", what, got)
			}
			a.want(t, 200, "other")
		}
	}
	touch(t, st, "f", time.Now().Add(time.Hour))
	a := ask(t, h, "HEAD /f", "")
	if at, err := http.ParseTime(a.header.Get("Last-Modified")); err != nil || at.After(time.Now()) {
		t.Errorf("last modified %v, %v: RFC 9110 §8.8.2.1", at, err)
	}
	// Without a time there is nothing to compare.
	h = &web.Handler{Store: oneFile{store.NewFile("f", strings.NewReader("x"), 1, time.Time{})}}
	a = ask(t, h, "GET /f", "", "If-Modified-Since: "+after, "If-None-Match: W/\"x\"")
	a.want(t, 200, "x")
	a.wantField(t, "Etag", "")
	a.wantField(t, "Last-Modified", "")
}

// If the system records changes that no program can hide, a tag becomes strong after a while, even
// for a file whose times were set to whole seconds. A change with the same size and times changes
// the tag.
func TestEntityTagsOfSystem(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux are there identities")
	}
	began := time.Now()
	st, path := dir(t, map[string]string{"f": "content"})
	name := filepath.Join(path, "f")
	whole := old.Truncate(time.Second)
	if err := os.Chtimes(name, whole, whole); err != nil {
		t.Fatal(err)
	}
	h := &web.Handler{Store: st}
	tag := func() string { return ask(t, h, "HEAD /f", "").header.Get("Etag") }
	first := tag()
	if !strings.HasPrefix(first, `W/"`) && time.Since(began) < time.Second {
		t.Errorf("the tag of a young file is %s", first)
	}
	strong := strings.TrimPrefix(first, "W/")
	for deadline := time.Now().Add(time.Minute); tag() != strong; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("a minute later the tag is %s", tag())
		}
	}
	if err := os.WriteFile(name, []byte("CONTENT"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name, whole, whole); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimPrefix(tag(), "W/"); got == strong {
		t.Error("what was written in place, with the same size and times, has the same tag")
	}
}
