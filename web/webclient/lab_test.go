package webclient

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
	"github.com/haul-project/haul/internal/repeat"
)

// randomContent returns n bytes in which no two parts are alike. It always returns the same bytes.
func randomContent(n int) []byte {
	b := make([]byte, n)
	src := rand.NewChaCha8([32]byte{1})
	_, _ = src.Read(b)
	return b
}

// A lab is a web server whose behaviour is controlled by a test.
type lab struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	files    map[string]labFile
	requests []*http.Request // received requests in order of arrival, without bodies
	put      map[string][]byte

	// hook answers a request instead of the server, if it returns true.
	hook func(w http.ResponseWriter, r *http.Request, n int) bool
}

// A labFile is a file with its validators.
type labFile struct {
	content  []byte
	etag     string
	modified time.Time
}

var labTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// startLab serves files that have an ETag and a Last-Modified.
func startLab(t *testing.T, files map[string][]byte) *lab {
	t.Helper()
	l := newLab(t, files)
	l.Server = httptest.NewServer(l)
	t.Cleanup(l.Close)
	return l
}

func newLab(t *testing.T, files map[string][]byte) *lab {
	repeat.OnFailure(t)
	l := &lab{t: t, files: map[string]labFile{}, put: map[string][]byte{}}
	for name, content := range files {
		l.files[name] = labFile{content, `"1"`, labTime}
	}
	return l
}

// client returns a client of the lab, which is closed after the test.
func (l *lab) client(o Config) *Client {
	l.t.Helper()
	c, err := New(l.URL, o)
	if err != nil {
		l.t.Fatal(err)
	}
	c.pause, c.config.AbsenceTimeout = time.Millisecond, 0 // tests that wait for a server use virtual time
	l.t.Cleanup(func() { c.Close() })
	return c
}

func (l *lab) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	n := len(l.requests)
	l.requests = append(l.requests, r.Clone(context.Background()))
	hook := l.hook
	f, ok := l.files[strings.TrimPrefix(r.URL.Path, "/")]
	l.mu.Unlock()
	if hook != nil && hook(w, r, n) {
		return
	}
	switch r.Method {
	case http.MethodPut:
		l.servePut(w, r)
	case http.MethodDelete:
		l.mu.Lock()
		delete(l.files, strings.TrimPrefix(r.URL.Path, "/"))
		l.mu.Unlock()
		if !ok {
			http.NotFound(w, r)
		}
	default:
		if !ok {
			http.NotFound(w, r)
			return
		}
		l.serveLabFile(w, r, f)
	}
}

// serveLabFile answers with a file as package http does.
func (l *lab) serveLabFile(w http.ResponseWriter, r *http.Request, f labFile) {
	if f.etag != "" {
		w.Header().Set("ETag", f.etag)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", f.modified, bytes.NewReader(f.content))
}

func (l *lab) servePut(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	name := strings.TrimPrefix(r.URL.Path, "/")
	if _, taken := l.put[name]; taken && r.Header.Get("If-None-Match") == "*" {
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	l.put[name] = b
	w.WriteHeader(http.StatusCreated)
}

// file returns a file of the lab.
func (l *lab) file(name string) labFile {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.files[name]
}

// setHook changes how requests are answered.
func (l *lab) setHook(hook func(w http.ResponseWriter, r *http.Request, n int) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hook = hook
}

// asked returns the requests received so far.
func (l *lab) asked() []*http.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.requests)
}

// cutAfter answers with n bytes of a body whose declared length is larger, and cuts the connection.
func cutAfter(w http.ResponseWriter, r *http.Request, f labFile, n int) {
	if f.etag != "" {
		w.Header().Set("ETag", f.etag)
	}
	if !f.modified.IsZero() {
		w.Header().Set("Last-Modified", f.modified.Format(http.TimeFormat))
	}
	w.Header().Set("Accept-Ranges", "bytes")
	w.Header().Set("Content-Length", fmt.Sprint(len(f.content)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(f.content[:n])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// A memWriter is the target of a test's download.
type memWriter struct {
	mu     sync.Mutex
	b      []byte
	writes []pipeline.Range
	fail   error
	after  int64 // how many bytes are accepted before fail is returned
}

// check returns how many bytes between two offsets were not written, and how many were written more
// than once.
func (m *memWriter) check(from, to int64) (missing, twice int64) {
	slices.SortFunc(m.writes, func(a, b pipeline.Range) int { return cmp.Compare(a.Start, b.Start) })
	for _, w := range m.writes {
		missing += max(w.Start-from, 0)
		twice += max(min(from, w.End)-w.Start, 0)
		from = max(from, w.End)
	}
	return missing + max(to-from, 0), twice
}

func (m *memWriter) WriteAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil && off+int64(len(p)) > m.after {
		return 0, m.fail
	}
	if need := int(off) + len(p); need > len(m.b) {
		m.b = append(m.b, make([]byte, need-len(m.b))...)
	}
	copy(m.b[off:], p)
	m.writes = append(m.writes, pipeline.Range{Start: off, End: off + int64(len(p))})
	return len(p), nil
}

// openRemoteFile opens a file of a client, which is closed after the test.
func openRemoteFile(t *testing.T, c *Client, name string) *remoteFile {
	t.Helper()
	f, err := c.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f.(*remoteFile)
}

// wantFetch fetches a file from off on, and checks that it is correct and that each byte is written
// once.
func wantFetch(t *testing.T, f *remoteFile, want []byte, off int64) {
	t.Helper()
	w := &memWriter{}
	n, err := f.FetchTo(t.Context(), w, off)
	if err != nil {
		t.Fatalf("FetchTo from %d: %v", off, err)
	}
	if n != int64(len(want))-off {
		t.Errorf("FetchTo from %d returns %d, want %d", off, n, int64(len(want))-off)
	}
	if len(w.b) != 0 && !bytes.Equal(w.b[off:], want[off:]) || int64(len(w.b)) != int64(len(want)) && n > 0 {
		t.Errorf("FetchTo from %d: %d bytes that are not those of the file", off, len(w.b))
	}
	if missing, twice := w.check(off, int64(len(want))); missing > 0 || twice > 0 {
		t.Errorf("FetchTo from %d: %d bytes were not written, and %d more than once", off, missing, twice)
	}
}

// wantIs checks that errors.Is matches an error with the wanted one.
func wantIs(t *testing.T, what string, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: %v; want %v", what, err, kind)
	}
}

// startSecureLab returns a client of a server over TLS.
func startSecureLab(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewUnstartedServer(answer)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	c, err := New(s.URL, Config{TLS: s.Client().Transport.(*http.Transport).TLSClientConfig})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
