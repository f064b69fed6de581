package web_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/web"
)

// A kernelWriter is a ResponseWriter that records how files are handed to it.
type kernelWriter struct {
	*httptest.ResponseRecorder
	steps []int64 // how many bytes each call of ReadFrom copied
	plain bool    // some readers were not files
}

func (k *kernelWriter) ReadFrom(r io.Reader) (int64, error) {
	l, ok := r.(*io.LimitedReader)
	if !ok {
		k.plain = true
		return io.Copy(k.ResponseRecorder, r)
	}
	if _, ok := l.R.(*os.File); !ok {
		k.plain = true
	}
	n, err := io.Copy(k.Body, l)
	k.steps = append(k.steps, n)
	return n, err
}

// Files that the kernel can send reach the connection in the form that net and tcp need: a file
// behind one io.LimitedReader, in steps.
func TestHandsFilesToKernel(t *testing.T) {
	body := pattern(12 << 20)
	st, _ := dir(t, map[string]string{"f": string(body)})
	h := &web.Handler{Store: st}
	for _, field := range []string{"", "bytes=100-11000000", "bytes=0-400000, 500000-11000000"} {
		k := &kernelWriter{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/f", nil)
		if field != "" {
			r.Header.Set("Range", field)
		}
		h.ServeHTTP(k, r)
		if k.plain || len(k.steps) < 4 || !bytes.Contains(k.Body.Bytes(), body[600_000:10_000_000]) {
			t.Errorf("%q: steps of %v bytes, of %d in all", field, k.steps, k.Body.Len())
		}
		for _, n := range k.steps {
			if n > 4<<20 {
				t.Errorf("%q: a step of %d bytes", field, n)
			}
		}
	}
	// With TLS and HTTP/2 the kernel cannot send files.
	k := &kernelWriter{ResponseRecorder: httptest.NewRecorder()}
	h.ServeHTTP(k, httptest.NewRequestWithContext(t.Context(), "GET", "https://x/f", nil))
	if len(k.steps) > 0 || !bytes.Equal(k.Body.Bytes(), body) {
		t.Errorf("over TLS: steps of %v, %d bytes", k.steps, k.Body.Len())
	}
}

// A partedFile is a file of which every second part is stored in a file of the operating system.
type partedFile struct {
	store.File
	t     *testing.T
	size  int64
	parts int // number of open parts
}

const partSize = 1 << 20

func (f *partedFile) OpenPart(off, n int64) (part *os.File, length int64, end func(), ok bool) {
	if off/partSize%2 == 0 {
		return nil, 0, nil, false
	}
	parts, _ := store.As[store.PartOpener](f.File)
	whole, _, _, _ := parts.OpenPart(0, 0)
	part, err := os.Open(whole.Name())
	if err == nil {
		_, err = part.Seek(off, io.SeekStart)
	}
	if err != nil {
		f.t.Error(err)
		return nil, 0, nil, false
	}
	f.parts++
	return part, min(n, partSize-off%partSize, f.size-off), func() { f.parts--; _ = part.Close() }, true
}

// A partedStore returns the same partedFile for every name.
type partedStore struct {
	store.Store
	file *partedFile
}

func (s partedStore) Open(ctx context.Context, name string) (store.File, error) {
	f, err := s.Store.Open(ctx, name)
	s.file.File = f
	return s.file, err
}

// The kernel sends those parts of a file that are files of the operating system, and the rest is
// copied, both for a range and for the whole file. A copy may extend into the next part.
func TestHandsPartsToKernel(t *testing.T) {
	body := pattern(5<<20 + 100)
	st, path := dir(t, map[string]string{"f": string(body)})
	t.Chdir(path) // a file of an os.Root has a name relative to it
	f := &partedFile{t: t, size: int64(len(body))}
	h := &web.Handler{Store: partedStore{st, f}}
	for _, test := range []struct {
		field    string
		from, to int
		byKernel int64
	}{{"", 0, len(body), 2<<20 + 100}, {"bytes=1000000-3000000", 1000000, 3000001, 1 << 20}, {"bytes=3200000-3300000", 3200000, 3300001, 100001}} {
		k := &kernelWriter{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/f", nil)
		if test.field != "" {
			r.Header.Set("Range", test.field)
		}
		h.ServeHTTP(k, r)
		var byKernel int64
		for _, n := range k.steps {
			byKernel += n
		}
		if k.plain || byKernel > test.byKernel || byKernel < test.byKernel-128<<10 || f.parts != 0 || !bytes.Equal(k.Body.Bytes(), body[test.from:test.to]) {
			t.Errorf("%q: %d bytes, of which the kernel had %d, want %d; %d parts are open", test.field, k.Body.Len(), byKernel, test.byKernel, f.parts)
		}
	}
}

// A distantStore behaves like a store of files on another machine: the bytes after the first 8 KiB
// arrive when rest is closed.
type distantStore struct {
	store.Store
	rest chan struct{}
}

func (s distantStore) Open(ctx context.Context, name string) (store.File, error) {
	f, err := s.Store.Open(ctx, name)
	return distantFile{f, s.rest}, err
}

type distantFile struct {
	store.File
	rest chan struct{}
}

func (f distantFile) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > 8<<10 {
		<-f.rest
	}
	return f.File.ReadAt(p, off)
}

// The first bytes of a file are sent as soon as they have arrived, without waiting for more.
func TestFirstBytesLeave(t *testing.T) {
	body := string(pattern(1 << 20))
	rest := make(chan struct{})
	s := httptest.NewServer(&web.Handler{Store: distantStore{mem(t, map[string]string{"f": body}), rest}})
	defer s.Close()
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/f", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := make([]byte, len(body))
	if _, err := io.ReadFull(resp.Body, got[:1000]); err != nil {
		t.Fatal(err)
	}
	close(rest)
	if _, err := io.ReadFull(resp.Body, got[1000:]); err != nil || string(got) != body {
		t.Errorf("the rest is wrong, or %v", err)
	}
}

// Over real connections: plain, TLS, and HTTP/2.
func TestTransports(t *testing.T) {
	body := string(pattern(9<<20 + 123))
	disk, _ := dir(t, map[string]string{"f": body})
	for name, st := range map[string]store.Store{"Dir": disk, "Mem": mem(t, map[string]string{"f": body})} {
		for _, proto := range []string{"HTTP/1.1", "HTTP/1.1 TLS", "HTTP/2.0"} {
			s := httptest.NewUnstartedServer(&web.Handler{Store: st, Access: web.AccessOverwrite})
			s.EnableHTTP2 = proto == "HTTP/2.0"
			if proto == "HTTP/1.1" {
				s.Start()
			} else {
				s.StartTLS()
			}
			do := func(method string, content io.Reader, field string) (*http.Response, string) {
				t.Helper()
				r, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/f", content)
				if err != nil {
					t.Fatal(err)
				}
				if field != "" {
					r.Header.Set("Range", field)
				}
				resp, err := s.Client().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				b, err := io.ReadAll(resp.Body)
				if err != nil || resp.Proto != proto[:8] {
					t.Errorf("%s by %s: %s, %v", name, proto, resp.Proto, err)
				}
				return resp, string(b)
			}
			resp, got := do("GET", nil, "")
			if got != body || resp.ContentLength != int64(len(body)) {
				t.Errorf("%s by %s: %d bytes, Content-Length %d", name, proto, len(got), resp.ContentLength)
			}
			if _, got := do("GET", nil, "bytes=5000000-"); got != body[5_000_000:] {
				t.Errorf("%s by %s: a range of %d bytes", name, proto, len(got))
			}
			if resp, _ := do("PUT", bytes.NewReader([]byte(body)), ""); resp.StatusCode != http.StatusNoContent {
				t.Errorf("%s by %s: PUT: %d", name, proto, resp.StatusCode)
			}
			if content(t, st, "f") != body {
				t.Errorf("%s by %s: the upload is not what was sent", name, proto)
			}
			s.Close()
		}
	}
}

// A rate limits all requests together, and another one those of an account.
func TestRate(t *testing.T) {
	const size, rate = 60_000, 200_000
	st := mem(t, map[string]string{"f": string(pattern(size))})
	for name, h := range map[string]*web.Handler{
		"of all":        {Rate: rate, Store: st, Access: web.AccessOverwrite},
		"of an account": {Account: account(web.Account{User: "me", Store: st, Access: web.AccessOverwrite, Rate: rate})},
	} {
		began := time.Now()
		ask(t, h, "GET /f", "").want(t, 200, string(pattern(size)))
		if took, least := time.Since(began), (size*time.Second)/rate-100*time.Millisecond; took < least {
			t.Errorf("%s: %d bytes took %v, at %d a second", name, size, took, rate)
		}
		began = time.Now()
		ask(t, h, "PUT /f", string(pattern(size))).want(t, 204, "")
		if took, least := time.Since(began), (size*time.Second)/rate-100*time.Millisecond; took < least {
			t.Errorf("%s: an upload of %d bytes took %v, at %d a second", name, size, took, rate)
		}
	}
}

// The allocations of a request for a small file are bounded.
func TestGetAllocates(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	disk, _ := dir(t, map[string]string{"f": "content"})
	for name, test := range map[string]struct {
		st   store.Store
		most float64
	}{"Mem": {mem(t, map[string]string{"f": "content"}), 10}, "Dir": {disk, 28}} {
		h := &web.Handler{Store: test.st}
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/f", nil)
		w := &discard{header: http.Header{}}
		got := testing.AllocsPerRun(200, func() {
			clear(w.header)
			h.ServeHTTP(w, r)
		})
		t.Logf("%s: %v allocations", name, got)
		if got > test.most && runtime.GOOS == "linux" {
			t.Errorf("%s: %v allocations, %v are the most", name, got, test.most)
		}
	}
}

// discard is a ResponseWriter that keeps nothing.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

// BenchmarkGet measures a request for a small file, and requests for less than all of it. The file
// is in memory, so that only the handler counts.
func BenchmarkGet(b *testing.B) {
	h := &web.Handler{Store: mem(b, map[string]string{"f": string(pattern(1000))})}
	for _, test := range []struct{ name, method, field, value string }{
		{"whole", "GET", "Accept", "*/*"},
		{"range", "GET", "Range", "bytes=100-199"},
		{"unchanged", "GET", "If-Modified-Since", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)},
		{"head", "HEAD", "Accept", "*/*"},
	} {
		b.Run(test.name, func(b *testing.B) {
			r := httptest.NewRequestWithContext(b.Context(), test.method, "/f", nil)
			r.Header.Set(test.field, test.value)
			w := &discard{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				h.ServeHTTP(w, r)
			}
		})
	}
}
