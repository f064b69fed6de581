package web_test

import (
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/haul-project/haul/web"
)

const digits20 = "0123456789abcdefghij"

// The answer contains the requested ranges, as far as they exist: RFC 9110 §14.
func TestRange(t *testing.T) {
	h := &web.Handler{Store: mem(t, map[string]string{"f": digits20, "empty": ""})}
	const all = "all of it"
	tests := []struct{ field, want string }{
		{"bytes=0-0", "0"},
		{"bytes=0-4", "01234"},
		{"bytes=5-", "56789abcdefghij"},
		{"bytes=-3", "hij"},
		{"bytes=-20", digits20},
		{"bytes=-21", digits20},
		{"bytes=0-19", digits20},
		{"bytes=0-20", digits20},
		{"bytes=10-99999999999999999999999", "abcdefghij"},
		{"bytes=-99999999999999999999999", digits20},
		{"Bytes=1-1", "1"}, // units ignore case: §14.1
		{"bytes= 1-1 , ", "1"},
		{"bytes=19-19", "j"},
		{"bytes=18-18,30-40", "i"}, // only the first of the two exists
		// Unsatisfiable ranges: §15.5.17.
		{"bytes=20-", ""},
		{"bytes=20-30", ""},
		{"bytes=99999999999999999999999-", ""},
		{"bytes=-0", ""},
		{"bytes=20-,30-", ""},
		// Nonsense is ignored: §14.2.
		{"", all},
		{"bytes", all},
		{"bytes=", all},
		{"bytes=,", all},
		{"bytes=-", all},
		{"bytes=4-3", all},
		{"bytes=1-2-3", all},
		{"bytes=--3", all},
		{"bytes=a-b", all},
		{"bytes=+1-2", all},
		{"bytes=0x1-2", all},
		{"bytes=1 - 2", all},
		{"bytes=0-4,x", all},
		{"lines=0-4", all},
		{"bytes =0-4,bytes=5-6", all},
		// Too many bytes or too many ranges: an attack.
		{"bytes=0-19,0-19", all},
		{"bytes=" + strings.Repeat("0-0,", 64) + "0-0", all},
	}
	for _, test := range tests {
		a := ask(t, h, "GET /f", "", "Range: "+test.field)
		switch test.want {
		case all:
			a.want(t, http.StatusOK, digits20)
			a.wantField(t, "Content-Range", "")
		case "":
			a.want(t, http.StatusRequestedRangeNotSatisfiable, "*")
			a.wantField(t, "Content-Range", "bytes */20")
			a.wantField(t, "Etag", "")
			a.wantField(t, "Last-Modified", "")
		default:
			a.want(t, http.StatusPartialContent, test.want)
			first := strings.Index(digits20, test.want)
			a.wantField(t, "Content-Range", fmt.Sprintf("bytes %d-%d/20", first, first+len(test.want)-1))
			a.wantField(t, "Content-Length", fmt.Sprint(len(test.want)))
			a.wantField(t, "Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT")
		}
		if t.Failed() {
			t.Fatalf("Range: %q", test.field)
		}
		// HEAD has no ranges: §14.2.
		head := ask(t, h, "HEAD /f", "", "Range: "+test.field)
		head.want(t, http.StatusOK, "")
		head.wantField(t, "Content-Length", "20")
	}
	ask(t, h, "GET /f", "", "Range: bytes=0-1", "Range: bytes=2-3").want(t, http.StatusOK, digits20)
	for _, field := range []string{"bytes=0-", "bytes=-5", "bytes=7-"} {
		ask(t, h, "GET /empty", "", "Range: "+field).want(t, http.StatusOK, "")
	}
}

// Several ranges are sent in one answer of known length: RFC 9110 §14.6.
func TestMultipart(t *testing.T) {
	large := string(pattern(1 << 20))
	disk, _ := dir(t, map[string]string{"f.txt": large})
	for name, h := range map[string]*web.Handler{
		"Mem": {Store: mem(t, map[string]string{"f.txt": large})},
		"Dir": {Store: disk},
	} {
		s := serve(t, h)
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/f.txt", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Range", "bytes=10-19, 300000-900000, 2000000-, -1")
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		media, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
		if err != nil || media != "multipart/byteranges" || resp.StatusCode != http.StatusPartialContent ||
			resp.ContentLength < 600_000 || len(resp.TransferEncoding) > 0 || resp.Header.Get("Content-Range") != "" {
			t.Fatalf("%s: %d, %v", name, resp.StatusCode, resp.Header)
		}
		parts := multipart.NewReader(resp.Body, params["boundary"])
		for _, want := range []struct {
			field string
			body  string
		}{
			{"bytes 10-19/1048576", large[10:20]},
			{"bytes 300000-900000/1048576", large[300_000:900_001]},
			{"bytes 1048575-1048575/1048576", large[len(large)-1:]},
		} {
			p, err := parts.NextPart()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			b, err := io.ReadAll(p)
			if err != nil || string(b) != want.body || p.Header.Get("Content-Range") != want.field || p.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("%s: %v, %d bytes, %v", name, p.Header, len(b), err)
			}
		}
		if _, err := parts.NextPart(); err != io.EOF {
			t.Errorf("%s: after the last part: %v", name, err)
		}
		// If the length were wrong, the reader would get an error.
		if n, err := io.Copy(io.Discard, resp.Body); n != 0 || err != nil {
			t.Errorf("%s: %d bytes too many, %v", name, n, err)
		}
	}
}
