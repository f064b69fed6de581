package web_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/leak"
	"github.com/haul-project/haul/internal/repeat"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/store/storetest"
	"github.com/haul-project/haul/web"
)

func TestMain(m *testing.M) { leak.Main(m, "haul/web.") }

// patience is the timeout for events that only a failing test waits for.
const patience = 20 * time.Second

// old is a time long ago, with a fraction of a second.
var old = time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)

// dir returns a store in a new directory with some files, and the directory. All files are old,
// except for their time of change, which no program can set.
func dir(t testing.TB, files map[string]string) (*localdir.Dir, string) {
	t.Helper()
	path := t.TempDir()
	for name, content := range files {
		writeFile(t, filepath.Join(path, name), content)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return localdir.New(root), path
}

func writeFile(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
}

// mem returns a store in memory with some files, all of them old, so that they have strong
// validators.
func mem(t testing.TB, files map[string]string) store.Tree {
	t.Helper()
	st := store.Mem(0)
	for name, content := range files {
		put(t, st, name, content)
	}
	return st
}

func put(t testing.TB, st store.Tree, name, content string) {
	t.Helper()
	storetest.Put(t, st, name, content)
	touch(t, st, name, old)
}

func touch(t testing.TB, st store.Tree, name string, at time.Time) {
	t.Helper()
	if err := st.SetAttr(t.Context(), name, store.Attr{ModTime: at}, true); err != nil {
		t.Fatal(err)
	}
}

// content returns the content of a file in a store, or "no such file".
func content(t testing.TB, st store.Store, name string) string {
	t.Helper()
	f, err := st.Open(t.Context(), name)
	if err != nil {
		return "no such file"
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, fi.Size())
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return string(b)
}

// An answer is the answer of a handler.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask lets a handler answer a request, given as "METHOD target", without a network. fields are
// "Key: value".
func ask(t testing.TB, h http.Handler, request, body string, fields ...string) answer {
	t.Helper()
	method, target, _ := strings.Cut(request, " ")
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r := httptest.NewRequestWithContext(t.Context(), method, target, content)
	for _, f := range fields {
		key, value, _ := strings.Cut(f, ": ")
		r.Header.Add(key, value)
	}
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				panic(p)
			}
		}()
		h.ServeHTTP(w, r)
	}()
	return answer{w.Code, w.Header(), w.Body.String()}
}

// want checks the status, and the body unless that is "*".
func (a answer) want(t testing.TB, status int, body string) {
	t.Helper()
	if a.status != status || body != "*" && a.body != body {
		t.Errorf("got %d %q, want %d %q", a.status, clip(a.body), status, clip(body))
	}
}

func (a answer) wantField(t testing.TB, key, value string) {
	t.Helper()
	if got := strings.Join(a.header.Values(key), " | "); got != value {
		t.Errorf("%s is %q, want %q", key, got, value)
	}
}

func clip(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}

// serve starts a server with real connections.
func serve(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	repeat.OnFailure(t)
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// pattern returns n bytes in which no two parts look alike.
func pattern(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		b.WriteString(strings.Repeat("x", i%7))
		b.WriteString(time.Duration(i).String())
	}
	return b.Bytes()[:n]
}

// ended returns a channel that receives each exchange of the handler when it is over.
func ended(h *web.Handler) chan *web.Exchange {
	c := make(chan *web.Exchange, 100)
	h.Ended = func(x *web.Exchange) { c <- x }
	return c
}

// account returns a hook that gives everybody the same account.
func account(a web.Account) func(context.Context, web.Visitor) (*web.Account, error) {
	return func(context.Context, web.Visitor) (*web.Account, error) { return &a, nil }
}
