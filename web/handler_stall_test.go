package web_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/web"
)

// If a file shrinks or cannot be read, the connection is closed, so that the client does not take
// the received part for the whole.
func TestBrokenBody(t *testing.T) {
	const size = 100_000
	for name, r := range map[string]io.ReaderAt{
		"shrunk":     strings.NewReader("short"),
		"unreadable": failingAt(50_000),
	} {
		h := &web.Handler{Store: oneFile{store.NewFile("f", r, size, old)}}
		told := ended(h)
		s := serve(t, h)
		// If nothing was sent yet, there is no answer at all.
		if resp, err := s.Client().Get(s.URL + "/f"); err == nil {
			n, err := io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if err == nil || n >= size || resp.ContentLength != size {
				t.Errorf("%s: %d of %d bytes, %v", name, n, resp.ContentLength, err)
			}
		}
		if x := <-told; x.Err == nil {
			t.Errorf("%s: no error is reported", name)
		}
		if c := h.Counters(); c.Failed != 1 || c.Active != 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// oneFile is a store that returns the same file for any name.
type oneFile struct{ store.File }

func (o oneFile) Open(context.Context, string) (store.File, error)  { return o.File, nil }
func (o oneFile) Stat(context.Context, string) (fs.FileInfo, error) { return o.File.Stat() }
func (o oneFile) Create(context.Context, string, store.Create) (store.Upload, error) {
	return nil, errors.ErrUnsupported
}

// failingAt is a file that can be read only up to an offset.
type failingAt int64

func (f failingAt) ReadAt(p []byte, off int64) (int, error) {
	n := min(int64(len(p)), int64(f)-off)
	if n <= 0 {
		return 0, syscall.EIO
	}
	clear(p[:n])
	if n < int64(len(p)) {
		return int(n), syscall.EIO
	}
	return int(n), nil
}

// A client that receives nothing is disconnected.
func TestStalledReader(t *testing.T) {
	st, path := dir(t, map[string]string{"f": ""})
	if err := os.Truncate(filepath.Join(path, "f"), 1<<30); err != nil { // more than fits into the socket buffers
		t.Fatal(err)
	}
	h := &web.Handler{Store: st, Stall: 50 * time.Millisecond}
	told := ended(h)
	c, err := net.Dial("tcp", serve(t, h).Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /f HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	x := <-told
	if !errors.Is(x.Err, os.ErrDeadlineExceeded) || x.Status != 200 {
		t.Errorf("ended with %d, %v", x.Status, x.Err)
	}
}

// The deadline of one request does not apply to the next one on the connection. On a busy machine
// the client may be late, so the test tries again with longer deadlines.
func TestDeadlineIsTakenBack(t *testing.T) {
	var err error
	for _, stall := range []time.Duration{10 * time.Millisecond, 300 * time.Millisecond, 10 * time.Second} {
		if err = askLater(t, stall); err == nil {
			return
		}
		t.Logf("with a stall of %v: %v", stall, err)
	}
	t.Error(err)
}

// askLater reads and writes a file, and after each sends another request, later than the stall
// timeout.
func askLater(t *testing.T, stall time.Duration) error {
	t.Helper()
	st, _ := dir(t, map[string]string{"f": string(pattern(1 << 20))})
	h := &web.Handler{Store: st, Access: web.AccessOverwrite, Stall: stall}
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.HandleFunc("/later", func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(3 * stall)
		_, _ = io.WriteString(w, "late")
	})
	s := serve(t, mux)
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		return err
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for _, request := range []string{
		"GET /f HTTP/1.1\r\nHost: x\r\n\r\n", "GET /later HTTP/1.1\r\nHost: x\r\n\r\n",
		"PUT /g HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", "GET /later HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		if _, err := io.WriteString(c, request); err != nil {
			return err
		}
		resp, err := http.ReadResponse(r, httptest.NewRequest(request[:3], "/", nil))
		if err != nil {
			return fmt.Errorf("%.10s: %w", request, err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode >= 300 {
			return fmt.Errorf("%.10s: %d, %v", request, resp.StatusCode, err)
		}
	}
	return nil
}

// A request that one server could read as one and another server as two is refused, or read as one.
// So a request that is hidden in content is never served.
func TestSmuggling(t *testing.T) {
	const hidden = "DELETE /f HTTP/1.1\r\nHost: x\r\n\r\n"
	chunk := fmt.Sprintf("0\r\n\r\n%s", hidden)
	for name, request := range map[string]string{
		"both lengths":        "PUT /g HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk,
		"two lengths":         "PUT /g HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 33\r\n\r\n" + hidden,
		"a length with sign":  "PUT /g HTTP/1.1\r\nHost: x\r\nContent-Length: +0\r\n\r\n" + hidden,
		"space before colon":  "PUT /g HTTP/1.1\r\nHost: x\r\nContent-Length : 0\r\n\r\n" + hidden,
		"another encoding":    "PUT /g HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n" + chunk,
		"chunked twice":       "PUT /g HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk,
		"chunked by HTTP/1.0": "PUT /g HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk,
		"a bad chunk":         "PUT /g HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n" + hidden,
		"a folded field":      "PUT /g HTTP/1.1\r\nHost: x\r\nX: y\r\n Content-Length: 0\r\n\r\n" + strings.ReplaceAll(hidden, "/f", "/none"),
		"no host":             "PUT /g HTTP/1.1\r\nContent-Length: 0\r\n\r\n" + hidden,
		"two hosts":           "PUT /g HTTP/1.1\r\nHost: x\r\nHost: y\r\nContent-Length: 0\r\n\r\n" + hidden,
		"content of a GET":    "GET /none HTTP/1.1\r\nHost: x\r\nContent-Length: 33\r\n\r\n" + hidden,
		"a refused content":   "POST /g HTTP/1.1\r\nHost: x\r\nContent-Length: 33\r\n\r\n" + hidden,
	} {
		st := mem(t, map[string]string{"f": "here"})
		s := serve(t, &web.Handler{Store: st, Access: web.AccessFull, Stall: time.Second})
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(c)
		c.Close()
		if err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %v", name, err)
		}
		if got := content(t, st, "f"); got != "here" {
			t.Errorf("%s: what was hidden was done; the answer was %q", name, clip(string(answer)))
		}
	}
}
