package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/web"
)

func TestPut(t *testing.T) {
	disk, _ := dir(t, map[string]string{"taken": "old", "sub/f": "x"})
	for name, st := range map[string]store.Store{"Dir": disk, "Mem": mem(t, map[string]string{"taken": "old", "sub/f": "x"})} {
		t.Run(name, func(t *testing.T) {
			create := &web.Handler{Store: st, Access: web.AccessCreate}
			overwrite := &web.Handler{Store: st, Access: web.AccessOverwrite}
			dropBox := &web.Handler{Store: st, Access: web.AccessUploadOnly}
			ask(t, &web.Handler{Store: st}, "PUT /new", "x").want(t, 405, "*")

			ask(t, create, "PUT /new", "content").want(t, 201, "created\n")
			ask(t, create, "PUT /new", "more").want(t, 409, "*")
			ask(t, create, "PUT /taken", "new").want(t, 409, "*")
			ask(t, dropBox, "PUT /taken", "new").want(t, 409, "*")
			ask(t, dropBox, "PUT /dropped", "letter").want(t, 201, "*")
			ask(t, overwrite, "PUT /taken", "new").want(t, 204, "")
			ask(t, overwrite, "PUT /empty", "").want(t, 201, "*")
			ask(t, overwrite, "PUT /sub/g", "below").want(t, 201, "*")
			for _, target := range []string{"/", "/sub", "/sub/", "/new/"} {
				ask(t, overwrite, "PUT "+target, "x").want(t, 409, "*")
			}
			ask(t, overwrite, "PUT /../x", "x").want(t, 400, "*")
			a := ask(t, overwrite, "PUT /coded", "x", "Content-Encoding: gzip")
			a.want(t, 415, "*")
			a.wantField(t, "Accept-Encoding", "identity")
			for file, want := range map[string]string{"new": "content", "taken": "new", "dropped": "letter", "empty": "", "sub/g": "below", "coded": "no such file"} {
				if got := content(t, st, file); got != want {
					t.Errorf("%s is %q, want %q", file, got, want)
				}
			}
		})
	}
	// A file cannot be a directory above another file: RFC 4918 §9.7.1.
	ask(t, &web.Handler{Store: disk, Access: web.AccessOverwrite}, "PUT /taken/f", "x").want(t, 409, "there is no such directory, and none can be made\n")
}

func TestPutConditions(t *testing.T) {
	st := mem(t, map[string]string{"f": "old", "g": "old"})
	h := &web.Handler{Store: st, Access: web.AccessOverwrite}
	tag := ask(t, h, "HEAD /f", "").header.Get("Etag")
	tests := []struct {
		status int
		target string
		field  string
	}{
		{412, "/f", "If-None-Match: *"},
		{412, "/f", "If-None-Match: " + tag},
		{412, "/f", "If-Match: " + other},
		{412, "/f", "If-Match: W/" + tag},
		{412, "/f", "If-Unmodified-Since: " + before},
		{412, "/none", "If-Match: *"},
		{412, "/none", "If-Match: " + tag},
		{201, "/none", "If-None-Match: *"},
		{201, "/none2", "If-Unmodified-Since: " + before}, // a missing file has no date
		{204, "/f", "If-Match: " + tag},
		{412, "/f", "If-Match: " + tag}, // the tag has changed
		{204, "/f", "If-Match: *"},
		{204, "/f", "If-None-Match: " + other},
	}
	// If-Modified-Since is for GET and HEAD only (RFC 9110 §13.1.3).
	ask(t, h, "PUT /g", "new", "If-Match: *", "If-Modified-Since: "+after).want(t, 204, "*")
	for _, test := range tests {
		ask(t, h, "PUT "+test.target, "new", test.field).want(t, test.status, "*")
		if t.Failed() {
			t.Fatalf("%s with %s", test.target, test.field)
		}
	}
	// Clients that may only upload learn nothing except whether the file exists.
	h.Access = web.AccessUploadOnly
	ask(t, h, "PUT /f", "x", "If-None-Match: *").want(t, 412, "*")
	ask(t, h, "PUT /f", "x", "If-Match: "+tag).want(t, 412, "*")
}

// A file that is created while the upload runs is not replaced if the access or the request forbids
// it.
func TestPutRace(t *testing.T) {
	for _, access := range []web.Access{web.AccessCreate, web.AccessOverwrite} {
		st := mem(t, nil)
		h := &web.Handler{Store: st, Access: access}
		want, field := 409, "X-Nothing: x"
		if access == web.AccessOverwrite {
			want, field = 412, "If-None-Match: *"
		}
		h.Started = func(*web.Exchange) { put(t, st, "f", "first") }
		ask(t, h, "PUT /f", "second", field).want(t, want, "*")
		if got := content(t, st, "f"); got != "first" {
			t.Errorf("the file is %q", got)
		}
	}
	// If-Match is checked again before the commit.
	st := mem(t, map[string]string{"f": "first"})
	h := &web.Handler{Store: st, Access: web.AccessOverwrite}
	tag := ask(t, h, "HEAD /f", "").header.Get("Etag")
	h.Started = func(*web.Exchange) { put(t, st, "f", "between") }
	ask(t, h, "PUT /f", "second", "If-Match: "+tag).want(t, 412, "*")
	if got := content(t, st, "f"); got != "between" {
		t.Errorf("the file is %q", got)
	}
}

// A fullStore has room for a number of bytes.
type fullStore struct {
	store.Tree
	room int64
}

func (f fullStore) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	if c.Size > f.room {
		return nil, store.ErrNoSpace
	}
	u, err := f.Tree.Create(ctx, name, c)
	return fullUpload{u, f.room}, err
}

type fullUpload struct {
	store.Upload
	room int64
}

func (f fullUpload) WriteAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.room {
		return 0, fmt.Errorf("write /srv/secret: %w", store.ErrNoSpace)
	}
	return f.Upload.WriteAt(p, off)
}

// chunked hides the length of a content from net/http.
type chunked struct{ io.Reader }

// A full disk is answered by 507: before anything is sent if the size is known, or else as soon as
// the disk is full. The old file stays.
func TestPutDiskFull(t *testing.T) {
	st := fullStore{mem(t, map[string]string{"f": "old"}), 1 << 20}
	s := serve(t, &web.Handler{Store: st, Access: web.AccessOverwrite})
	// Nothing is sent before 100 Continue, so that no answer is lost with the connection.
	s.Client().Transport.(*http.Transport).ExpectContinueTimeout = time.Minute
	for name, size := range map[string]int{"known": 2 << 20, "unknown": 1<<20 + 1000, "fits": 1 << 20} {
		body := io.Reader(strings.NewReader(strings.Repeat("x", size)))
		if name == "unknown" {
			body = chunked{body}
		}
		r, err := http.NewRequestWithContext(t.Context(), "PUT", s.URL+"/f", body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Expect", "100-continue")
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		want := http.StatusInsufficientStorage
		if name == "fits" {
			want = http.StatusNoContent
		}
		if resp.StatusCode != want || strings.Contains(string(b), "srv") {
			t.Errorf("%s: %d %s", name, resp.StatusCode, b)
		}
		if name != "fits" && content(t, st, "f") == strings.Repeat("x", size) {
			t.Errorf("%s: the file was replaced", name)
		}
	}
}

func TestPutBounds(t *testing.T) {
	st := mem(t, nil)
	h := &web.Handler{Store: st, Access: web.AccessOverwrite, MaxUpload: 1000}
	s := serve(t, h)
	for name, test := range map[string]struct {
		size   int
		hidden bool
		status int
	}{
		"all that fits": {1000, false, 201}, "one too many": {1001, false, 413},
		"of unknown size": {1000, true, 201}, "one too many of unknown size": {1001, true, 413},
	} {
		body := io.Reader(strings.NewReader(strings.Repeat("x", test.size)))
		if test.hidden {
			body = chunked{body}
		}
		r, err := http.NewRequestWithContext(t.Context(), "PUT", s.URL+"/"+strings.ReplaceAll(name, " ", "-"), body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		got := content(t, st, strings.ReplaceAll(name, " ", "-"))
		if resp.StatusCode != test.status || (len(got) == test.size) != (test.status == 201) {
			t.Errorf("%s: %d, %d bytes", name, resp.StatusCode, len(got))
		}
	}
}

// talk opens a connection, and sends the header of a request.
func talk(t *testing.T, h http.Handler, head string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", serve(t, h).Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, head); err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewReader(c)
}

// 100 Continue is sent when the content is about to be read, and not before: RFC 9110 §10.1.1.
func TestExpectContinue(t *testing.T) {
	st := mem(t, map[string]string{"taken": "x"})
	h := &web.Handler{Store: st, Access: web.AccessCreate, MaxUpload: 100}
	for target, want := range map[string]string{"/taken": "409", "/new": "100", "/large": "413", "/": "409", "/../x": "400"} {
		length := 3
		if target == "/large" {
			length = 1000
		}
		c, r := talk(t, h, fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", target, length))
		line, err := r.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "HTTP/1.1 "+want) {
			t.Fatalf("%s: %q, %v; want %s", target, line, err, want)
		}
		if want == "100" {
			if _, err := io.WriteString(c, "abc"); err != nil {
				t.Fatal(err)
			}
			_, _ = r.ReadString('\n')
			if line, err = r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 201") {
				t.Errorf("then %q, %v", line, err)
			}
		}
	}
}

// An upload that is cut off leaves nothing, and the file that it would replace stays.
func TestPutCutOff(t *testing.T) {
	st, path := dir(t, map[string]string{"f": "old"})
	h := &web.Handler{Store: st, Access: web.AccessOverwrite}
	told := ended(h)
	c, _ := talk(t, h, "PUT /f HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nonly so much")
	c.Close()
	if x := <-told; x.Err == nil || x.Status >= 200 && x.Status < 300 {
		t.Errorf("ended with %d, %v", x.Status, x.Err)
	}
	if got := content(t, st, "f"); got != "old" {
		t.Errorf("the file is %q", got)
	}
	wantNames(t, path, "f")
	// A client that stops sending does not keep the upload open for ever, either.
	h.Stall = 30 * time.Millisecond
	_, r := talk(t, h, "PUT /f HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nonly so much")
	line, err := r.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 408") {
		t.Errorf("the answer to silence is %q, %v", line, err)
	}
	<-told
	wantNames(t, path, "f")
}

func TestDelete(t *testing.T) {
	st := mem(t, map[string]string{"f": "x", "g": "y", "sub/h": "z"})
	h := &web.Handler{Store: st, Access: web.AccessFull}
	tag := ask(t, h, "HEAD /f", "").header.Get("Etag")
	ask(t, h, "DELETE /f", "", "If-Match: "+other).want(t, 412, "*")
	ask(t, h, "DELETE /f", "", "If-Match: "+tag).want(t, 204, "")
	ask(t, h, "DELETE /g", "").want(t, 204, "")
	ask(t, h, "DELETE /g", "").want(t, 404, "*")
	ask(t, h, "DELETE /g", "", "If-None-Match: *").want(t, 404, "*")
	for _, target := range []string{"/", "/sub", "/sub/"} {
		ask(t, h, "DELETE "+target, "").want(t, 409, "*")
	}
	if got := content(t, st, "sub/h"); got != "z" {
		t.Errorf("sub/h is %q", got)
	}
	ask(t, &web.Handler{Store: oneFile{store.FromBytes("f", nil)}, Access: web.AccessFull}, "DELETE /f", "").want(t, 501, "*")
}
