package web_test

import (
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/web"
)

func TestVariants(t *testing.T) {
	st := mem(t, map[string]string{
		"f.txt": digits20, "f.txt.gz": "GZIP", "f.txt.br": "BROTLI", "f.txt.zst": "ZSTD",
		"g.txt": digits20, "g.txt.gz": "GZIP",
		"none.txt": digits20,
		"old.txt":  digits20, "old.txt.gz": "STALE",
		"a.gz": "archive", "a.gz.gz": "twice",
	})
	touch(t, st, "old.txt.gz", old.Add(-time.Second))
	h := &web.Handler{Store: st, Precompressed: true}
	tests := []struct{ file, accept, coding, body string }{
		{"f.txt", "gzip, deflate, br, zstd", "br", "BROTLI"},
		{"f.txt", "gzip", "gzip", "GZIP"},
		{"f.txt", "x-gzip", "gzip", "GZIP"},
		{"f.txt", "GZIP", "gzip", "GZIP"},
		{"f.txt", "zstd;q=0.5, gzip;q=1.0", "gzip", "GZIP"},
		{"f.txt", "zstd;q=0.5, gzip;q=0.4", "zstd", "ZSTD"},
		{"f.txt", "gzip;q=0, zstd;q=0.001", "zstd", "ZSTD"},
		{"f.txt", "*", "br", "BROTLI"},
		{"f.txt", "*, br;q=0", "zstd", "ZSTD"},
		{"f.txt", "gzip ; q=1", "gzip", "GZIP"},
		{"f.txt", "gzip;q=0", "", digits20},
		{"f.txt", "gzip;q=0.000", "", digits20},
		{"f.txt", "gzip;q=nonsense", "", digits20},
		{"f.txt", "gzip;q=2", "", digits20},
		{"f.txt", "gzip;q=0.1234", "", digits20},
		{"f.txt", "*;q=0", "", digits20},
		{"f.txt", "deflate", "", digits20},
		{"f.txt", "identity", "", digits20},
		{"f.txt", "", "", digits20},
		{"g.txt", "br, gzip", "gzip", "GZIP"},
		{"none.txt", "br, gzip", "", digits20},
		{"old.txt", "gzip", "", digits20}, // belongs to another version
		{"a.gz", "gzip", "", "archive"},
	}
	for _, test := range tests {
		a := ask(t, h, "GET /"+test.file, "", "Accept-Encoding: "+test.accept)
		a.want(t, 200, test.body)
		a.wantField(t, "Content-Encoding", test.coding)
		a.wantField(t, "Vary", "Accept-Encoding")
		if test.file != "a.gz" {
			a.wantField(t, "Content-Type", "text/plain; charset=utf-8") // the type of the original file
		}
		tag := a.header.Get("Etag")
		if test.coding != "" && !strings.HasSuffix(tag, "-"+test.coding+`"`) {
			t.Errorf("the tag of the variant is %s", tag)
		}
		if t.Failed() {
			t.Fatalf("%s with %q", test.file, test.accept)
		}
		// A variant has its own entity tag, which conditions can name.
		ask(t, h, "GET /"+test.file, "", "Accept-Encoding: "+test.accept, "If-None-Match: "+tag).want(t, 304, "")
	}
}

// A client that may add files does not change the content of other names, unless the program
// enables variants.
func TestNoVariantsUnlessAsked(t *testing.T) {
	h := &web.Handler{Store: mem(t, map[string]string{"f.txt": digits20}), Access: web.AccessCreate}
	ask(t, h, "PUT /f.txt.gz", "MINE").want(t, 201, "*")
	a := ask(t, h, "GET /f.txt", "", "Accept-Encoding: gzip")
	a.want(t, 200, digits20)
	a.wantField(t, "Content-Encoding", "")
	a.wantField(t, "Vary", "")
}

// A file with the name of a variant, but in another directory, is not used.
func TestNoVariantsOfOthers(t *testing.T) {
	first, second := mem(t, map[string]string{"f": digits20}), mem(t, map[string]string{"f": "other", "f.gz": "OTHER"})
	for name, st := range map[string]store.Store{
		"another directory's": store.Layers(first, second),
		"itself":              oneFile{store.NewFile("f", strings.NewReader(digits20), int64(len(digits20)), old)},
	} {
		a := ask(t, &web.Handler{Store: st, Precompressed: true}, "GET /f", "", "Accept-Encoding: gzip")
		a.want(t, 200, digits20)
		a.wantField(t, "Content-Encoding", "")
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// Ranges refer to the file, unless they name the variant.
func TestVariantRanges(t *testing.T) {
	h := &web.Handler{Precompressed: true, Store: mem(t, map[string]string{"f": digits20, "f.gz": "COMPRESSED"})}
	const accept = "Accept-Encoding: gzip"
	variant := ask(t, h, "HEAD /f", "", accept).header.Get("Etag")
	plain := ask(t, h, "HEAD /f", "").header.Get("Etag")
	if variant == plain {
		t.Fatalf("both have the tag %s", plain)
	}
	tests := []struct {
		status int
		body   string
		fields []string
	}{
		{206, "23", []string{"Range: bytes=2-3", accept}},
		{206, "23", []string{"Range: bytes=2-3"}},
		{206, "23", []string{"Range: bytes=2-3", accept, "If-Range: " + plain}},
		{206, "23", []string{"Range: bytes=2-3", accept, "If-Match: " + plain}},
		{206, "23", []string{"Range: bytes=2-3", accept, "If-Match: *"}},
		{206, "23", []string{"Range: bytes=2-3", accept, "If-Range: " + modified}},
		{206, "MP", []string{"Range: bytes=2-3", accept, "If-Range: " + variant}},
		{206, "MP", []string{"Range: bytes=2-3", accept, "If-Match: " + variant}},
		{200, digits20, []string{"Range: bytes=2-3", "If-Range: " + variant}},
		{412, "*", []string{"Range: bytes=2-3", "If-Match: " + variant}},
		{200, digits20, []string{"Range: bytes=2-3", accept, "If-Range: " + other}},
	}
	for _, test := range tests {
		a := ask(t, h, "GET /f", "", test.fields...)
		a.want(t, test.status, test.body)
		coding := ""
		if test.body == "MP" {
			coding = "gzip"
		}
		a.wantField(t, "Content-Encoding", coding)
		if t.Failed() {
			t.Fatalf("%q", test.fields)
		}
	}
}
