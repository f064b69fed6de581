package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/s3test"
	"github.com/haul-project/haul/store"
)

// readBoth reads a file with ReadAt and with FetchTo.
func readBoth(t *testing.T, s *Store, name string) (got []byte, fetched []byte, err, fetchErr error) {
	t.Helper()
	f, err := s.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	got, err = io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
	sink := make(sliceSink, fi.Size())
	n, fetchErr := f.(*file).FetchTo(t.Context(), sink, 0)
	return got, sink[:n], err, fetchErr
}

// A busy server, a server that is unreachable for a moment, and connections that break cause
// repetitions, but no wrong byte.
func TestFaultsThatPass(t *testing.T) {
	f := newFake(t)
	data := randomBytes(9 << 20)
	f.Put("f", string(data))
	cut := func(times int32) func(http.ResponseWriter, *http.Request) bool {
		var left atomic.Int32
		left.Store(times)
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || left.Add(-1) < 0 {
				return false
			}
			o := s3test.NewObject(string(data))
			first, last, status := int64(0), o.Size-1, 200
			w.Header().Set("ETag", `"`+o.ETag+`"`)
			w.Header().Set("Last-Modified", time.Unix(1_000_000_000, 0).UTC().Format(http.TimeFormat))
			if n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &first, &last); n == 2 {
				status = 206
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, o.Size))
			}
			w.Header().Set("Content-Length", fmt.Sprint(last-first+1))
			w.WriteHeader(status)
			_, _ = w.Write(data[first : first+(last-first)/3])
			_ = http.NewResponseController(w).Flush() // otherwise perhaps none of it would arrive
			panic(http.ErrAbortHandler)
		}
	}
	s := f.store()
	for name, set := range map[string]func(){
		"500":            func() { f.Fail(3, isMethod("GET"), 500, "InternalError") },
		"503 SlowDown":   func() { f.Fail(2, isMethod("GET"), 503, "SlowDown", "Retry-After", "0") },
		"500 in between": func() { f.Fail(1, isRange, 500, "InternalError") },
		"cut":            func() { f.SetHook(cut(7)) },
	} {
		set()
		got, fetched, err, fetchErr := readBoth(t, s, "f")
		if err != nil || fetchErr != nil || !bytes.Equal(got, data) || !bytes.Equal(fetched, data) {
			t.Errorf("%s: %d and %d bytes of %d; %v, %v", name, len(got), len(fetched), len(data), err, fetchErr)
		}
	}
}

// The Retry-After of the server is obeyed. If it is too long, the request fails at once.
func TestRetryAfter(t *testing.T) {
	f := newFake(t)
	f.Put("f", "x")
	var pauses []time.Duration // the pauses between the tries of one request
	s := f.store(func(c *Config) { c.Waiting = func(_ error, d time.Duration) { pauses = append(pauses, d) } })
	f.Fail(1, isMethod("HEAD"), 503, "", "Retry-After", "1")
	if _, err := s.Stat(t.Context(), "f"); err != nil || len(pauses) != 1 || pauses[0] < time.Second {
		t.Errorf("%v, after pauses of %v", err, pauses)
	}
	f.Fail(1, isMethod("HEAD"), 503, "", "Retry-After", "9999")
	_, err := s.Stat(t.Context(), "f")
	if len(pauses) != 1 || !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "s3://b12/f") || !strings.Contains(err.Error(), "2h46m39s") {
		t.Errorf("%v, after pauses of %v", err, pauses)
	}
}

// If a server stays busy or silent, the request fails after a bounded number of tries.
func TestGivesUp(t *testing.T) {
	f := newFake(t)
	f.Put("f", "x")
	s := f.store(func(c *Config) { c.AnswerTimeout = 30 * time.Millisecond })
	f.Fail(-1, isMethod("HEAD"), 500, "")
	f.Asked()
	_, err := s.Stat(t.Context(), "f")
	if n := len(f.Asked()); !errors.Is(err, ErrLost) || !errors.Is(err, store.ErrUnavailable) || n != maxTries {
		t.Errorf("500: %v, after %d tries", err, n)
	}
	stop := make(chan struct{})
	defer close(stop)
	f.SetHook(func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-r.Context().Done():
		case <-stop:
		}
		return true
	})
	if _, err = s.Stat(t.Context(), "f"); !errors.Is(err, ErrStalled) || len(f.Asked()) != maxSilence {
		t.Errorf("silence: %v", err)
	}
}

// If a file is replaced or removed while it is read, the read fails, however much was read.
func TestReplacedWhileReading(t *testing.T) {
	f := newFake(t)
	for what, change := range map[string]func(){
		"replaced": func() { f.Put("f", strings.Repeat("b", 9<<20)) },
		"shorter":  func() { f.Put("f", "b") },
		"removed":  func() { f.Delete("f") },
	} {
		f.Put("f", strings.Repeat("a", 9<<20))
		s := f.store()
		file, err := s.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		p := make([]byte, 100)
		if n, err := file.ReadAt(p, 0); n != 100 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		change()
		n, err := file.ReadAt(p, 8<<20)
		if n != 0 || !errors.Is(err, store.ErrChanged) || !IsRemote(err) {
			t.Errorf("%s: ReadAt = %d, %v", what, n, err)
		}
		sink := make(sliceSink, 9<<20)
		if _, err := file.(fetcher).FetchTo(t.Context(), sink, 0); !errors.Is(err, store.ErrChanged) || bytes.Contains(sink, []byte("b")) {
			t.Errorf("%s: FetchTo: %v", what, err)
		}
	}
}

type fetcher interface {
	FetchTo(ctx context.Context, w io.WriterAt, off int64) (int64, error)
}

func isRange(r *http.Request) bool { return r.Header.Get("Range") != "" }

// An answer that does not match the request is an error, and no part of it is delivered.
func TestWrongAnswers(t *testing.T) {
	f := newFake(t)
	f.Put("f", strings.Repeat("a", 4<<20))
	s := f.store()
	for what, header := range map[string]map[string]string{
		"another ETag":   {"ETag": `"0123"`},
		"another range":  {"Content-Range": "bytes 2097153-2097162/4194304"},
		"another size":   {"Content-Range": "bytes 2097152-2097161/4194305"},
		"another length": {"Content-Length": "9"},
		"no range":       {"Content-Range": ""},
	} {
		f.SetHook(func(w http.ResponseWriter, r *http.Request) bool {
			if !isRange(r) {
				return false
			}
			h := w.Header()
			h.Set("ETag", r.Header.Get("If-Match"))
			h.Set("Last-Modified", time.Unix(1_000_000_000, 0).UTC().Format(http.TimeFormat))
			h.Set("Content-Range", "bytes 2097152-2097161/4194304")
			h.Set("Content-Length", "10")
			for k, v := range header {
				h.Set(k, v)
			}
			w.WriteHeader(206)
			_, _ = io.WriteString(w, "bbbbbbbbbb")
			return true
		})
		file, err := s.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		n, err := file.ReadAt(make([]byte, 10), 2<<20)
		if n != 0 || !errors.Is(err, ErrProtocol) && !errors.Is(err, store.ErrChanged) {
			t.Errorf("%s: ReadAt = %d, %v", what, n, err)
		}
		file.Close()
	}
	f.SetHook(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("ETag", `"0123"`)
		w.Header().Set("Last-Modified", time.Unix(1_000_000_000, 0).UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Range", "bytes 0-9/1000")
		w.WriteHeader(206)
		_, _ = io.WriteString(w, "bbbbbbbbbb")
		return true
	})
	if _, err := s.Open(t.Context(), "f"); !errors.Is(err, ErrProtocol) {
		t.Errorf("Open, of which a part comes: %v", err)
	}
	for _, list := range []string{
		"<ListBucketResult><Contents><Key>\x1b[31m</Key>", "<html><p>", "<ListBucketResult><Contents><Size>many</Size></Contents></ListBucketResult>",
		"<ListBucketResult><Contents><LastModified>now</LastModified></Contents></ListBucketResult>",
	} {
		f.SetHook(func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = io.WriteString(w, list)
			return true
		})
		if _, err := s.ReadDir(t.Context(), "."); !errors.Is(err, ErrProtocol) {
			t.Errorf("ReadDir, which gets %s: %v", list, err)
		}
	}
}

// Errors for refusals say what to do, and match the errors of package store.
func TestRefusals(t *testing.T) {
	f := newFake(t)
	f.Put("f", "x")
	for _, tt := range []struct {
		status int
		code   string
		kind   error
		words  string
	}{
		{403, "RequestTimeTooSkewed", ErrLogin, "clock, which is 20m"},
		{400, "ExpiredToken", ErrLogin, "get new ones"},
		{403, "InvalidAccessKeyId", ErrLogin, "AWS_ACCESS_KEY_ID"},
		{403, "SignatureDoesNotMatch", ErrLogin, "secret key is wrong"},
		{403, "AccessDenied", fs.ErrPermission, "may not do that"},
		{404, "XAdminUserNotFound", ErrLogin, "AWS_ACCESS_KEY_ID"}, // an error code of versitygw
		{404, "NoSuchBucket", ErrNoBucket, "check its name"},
		{404, "NoSuchKey", fs.ErrNotExist, "404"},
		{301, "PermanentRedirect", ErrEndpoint, "set AWS_REGION to eu-north-1"},
		{400, "AuthorizationHeaderMalformed", ErrEndpoint, "set AWS_REGION"},
		{404, "NoSuchThing", ErrEndpoint, "check the endpoint"},
		{410, "Gone", ErrEndpoint, "check the endpoint"},
		{403, "UserSuspended", ErrLogin, "UserSuspended"},
		{403, "InvalidObjectState", fs.ErrPermission, "InvalidObjectState"},
		{507, "InsufficientStorage", store.ErrNoSpace, "507"},
		{501, "NotImplemented", errors.ErrUnsupported, "501"},
	} {
		s := f.store()
		f.Fail(-1, func(*http.Request) bool { return true }, tt.status, tt.code, "Date", time.Now().Add(-20*time.Minute).UTC().Format(http.TimeFormat), "X-Amz-Bucket-Region", "eu-north-1")
		_, err := s.Stat(t.Context(), "f")
		if err == nil || tt.kind != nil && !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.words) || !strings.Contains(err.Error(), "stat s3://b12/f") {
			t.Errorf("%d %s: %v, want %v with %q", tt.status, tt.code, err, tt.kind, tt.words)
		}
		if _, err := s.ReadDir(t.Context(), "."); err == nil {
			t.Errorf("%d %s: a listing is empty, and no error", tt.status, tt.code)
		}
		if err := s.Remove(t.Context(), "f"); err == nil {
			t.Errorf("%d %s: Remove succeeds", tt.status, tt.code)
		}
	}
}

// A file counts as missing only if an S3 server that accepts the keys says so. It does not if the
// answer is from a proxy or another kind of server, or from a server whose HEAD gives the same
// answer for revoked keys.
func TestMissingTakesWords(t *testing.T) {
	f := newFake(t)
	s := f.store()
	html := func(status int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Location", "https://elsewhere.example/secret?token=1")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<html>not here<br>")
		}
	}
	words := func(status int, code string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.WriteHeader(status)
			fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", code)
		}
	}
	denied := words(403, "AccessDenied")
	empty := func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<ListBucketResult></ListBucketResult>") }
	for _, tt := range []struct {
		what           string
		head           int
		get, list      func(http.ResponseWriter)
		kind           error
		words, without string
	}{
		{"missing", 404, nil, empty, fs.ErrNotExist, "404", "AWS"},
		{"missing, and keys that cannot list", 404, words(404, "NoSuchKey"), denied, fs.ErrNotExist, "404", "AWS"},
		{"another server", 404, html(404), html(404), ErrEndpoint, "AWS_ENDPOINT_URL", "key"},
		{"another server, which denies the list", 404, html(404), denied, ErrEndpoint, "AWS_ENDPOINT_URL", "key"},
		{"a server that is gone by the next request", 404, html(503), denied, ErrLost, "503", "404"},
		{"revoked, HEAD 404", 404, words(404, "XAdminUserNotFound"), words(404, "XAdminUserNotFound"), ErrLogin, "does not know this key", "missing"},
		{"revoked, HEAD 403", 403, words(403, "InvalidAccessKeyId"), nil, ErrLogin, "does not know this key", "missing"},
		{"a proxy denies all", 403, html(403), nil, ErrEndpoint, "AWS_ENDPOINT_URL", "keys"},
		{"a redirect", 307, html(307), nil, ErrEndpoint, "it redirects to https://elsewhere.example:", "secret"},
	} {
		f.SetHook(func(w http.ResponseWriter, r *http.Request) bool {
			switch {
			case r.Method == http.MethodHead:
				w.WriteHeader(tt.head)
			case r.URL.Query().Has("list-type"):
				tt.list(w)
			default:
				tt.get(w)
			}
			return true
		})
		_, err := s.Stat(t.Context(), "f")
		if !errors.Is(err, tt.kind) || errors.Is(err, fs.ErrNotExist) != (tt.kind == fs.ErrNotExist) || !strings.Contains(err.Error(), tt.words) || strings.Contains(err.Error(), tt.without) {
			t.Errorf("%s: %v, want %v with %q and without %q", tt.what, err, tt.kind, tt.words, tt.without)
		}
	}
}

// If keys are revoked while a file is read, the error is about the keys. It does not say that the
// file has changed.
func TestRevokedWhileReading(t *testing.T) {
	f := newFake(t)
	f.Put("f", strings.Repeat("x", 4<<20))
	file, err := f.store().Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	f.Fail(-1, isMethod("GET"), 404, "XAdminUserNotFound")
	// Far from the start, which was already read when the file was opened.
	if _, err := file.ReadAt(make([]byte, 1), 4<<20-1); !errors.Is(err, ErrLogin) || errors.Is(err, store.ErrChanged) {
		t.Error(err)
	}
}

// If keys are refused, the store asks for new ones. No part of a key is ever shown.
func TestRenewsKeys(t *testing.T) {
	f := newFake(t)
	f.Put("f", "x")
	var asked atomic.Int32
	s := f.store(func(c *Config) {
		c.Keys = func(context.Context) (Keys, error) {
			return Keys{ID: fmt.Sprint("KEYID", asked.Add(1)), Secret: "topsecret", Token: "sessiontoken"}, nil
		}
	})
	f.SetHook(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.Header.Get("Authorization"), "KEYID1/") {
			s3test.Refuse(w, r, 400, "ExpiredToken")
			return true
		}
		return false
	})
	if _, err := s.Stat(t.Context(), "f"); err != nil || asked.Load() != 2 {
		t.Errorf("%v, keys were asked for %d times", err, asked.Load())
	}
	f.Fail(-1, func(*http.Request) bool { return true }, 403, "InvalidAccessKeyId")
	_, err := s.Stat(t.Context(), "f")
	for _, text := range []string{fmt.Sprint(err), fmt.Sprintf("%v %+v %#v %s", Keys{ID: "KEYID1", Secret: "topsecret"}, Keys{Secret: "topsecret"}, Keys{Token: "sessiontoken"}, Keys{Secret: "topsecret"})} {
		for _, secret := range []string{"KEYID", "topsecret", "sessiontoken"} {
			if strings.Contains(text, secret) {
				t.Errorf("%q is shown in %s", secret, text)
			}
		}
	}
}

// Nothing listens, so waiting is pointless.
func TestNothingListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	s := newStore(t, "", Config{Endpoint: "http://" + l.Addr().String(), Keys: testKeys.get, Waiting: func(error, time.Duration) { t.Error("it is tried again") }})
	_, err = s.Stat(t.Context(), "f")
	if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "AWS_ENDPOINT_URL") {
		t.Error(err)
	}
}

// largeContent is the content of a file of any size.
type largeContent struct{}

func (largeContent) ReadAt(p []byte, off int64) (int, error) {
	for i := range p {
		at := off + int64(i)
		p[i] = byte(at>>20) ^ byte(at)
	}
	return len(p), nil
}

// 100 GB are read only by ranges, at the requested offsets.
func TestLargeObject(t *testing.T) {
	f := newFake(t)
	const size = 100 << 30
	f.PutObject("f", s3test.Object{Content: largeContent{}, Size: size, ETag: "large-12800"})
	s := f.store()
	file, err := s.Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, off := range []int64{0, 1 << 20, size / 2, size - 100} {
		p := make([]byte, 1000)
		n, err := file.ReadAt(p, off)
		if want := min(1000, size-off); int64(n) != want || off+want == size && err != io.EOF || off+want < size && err != nil {
			t.Fatalf("at %d: %d, %v", off, n, err)
		}
		for i := range p[:n] {
			if at := off + int64(i); p[i] != byte(at>>20)^byte(at) {
				t.Fatalf("at %d is another byte", at)
			}
		}
	}
	tail := &shiftSink{off: size - 10<<20, data: make([]byte, 10<<20)}
	if n, err := file.(fetcher).FetchTo(t.Context(), tail, tail.off); n != 10<<20 || err != nil {
		t.Fatal(n, err)
	}
}

// FetchTo writes each byte once, including those of an answer that was already there.
func TestFetchesOnce(t *testing.T) {
	f := newFake(t)
	data := randomBytes(3*fetchChunk + 5)
	f.Put("f", string(data))
	file, err := f.store().Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	sink := &countingSink{sliceSink: make(sliceSink, len(data))}
	n, err := file.(fetcher).FetchTo(t.Context(), sink, 0)
	if err != nil || n != int64(len(data)) || sink.n.Load() != n || !bytes.Equal(sink.sliceSink, data) {
		t.Errorf("%d bytes, %v, by writes of %d bytes", n, err, sink.n.Load())
	}
}

type countingSink struct {
	sliceSink
	n atomic.Int64
}

func (s *countingSink) WriteAt(p []byte, off int64) (int, error) {
	s.n.Add(int64(len(p)))
	return s.sliceSink.WriteAt(p, off)
}

type shiftSink struct {
	off  int64
	mu   sync.Mutex
	data []byte
}

func (s *shiftSink) WriteAt(p []byte, off int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return copy(s.data[off-s.off:], p), nil
}

// One request opens a file. It also fetches all of the file for a reader that reads in order, and
// for a reader that copies a small file. A reader that continues elsewhere needs a few more
// requests.
func TestRequestsOfReading(t *testing.T) {
	f := newFake(t)
	f.Put("f", strings.Repeat("a", 30<<20))
	f.Put("small", "x")
	s := f.store()
	open := func(name string) *file {
		t.Helper()
		file, err := s.open(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		return file
	}
	readOn := func(file *file, off int64) {
		t.Helper()
		for p := make([]byte, 4096); off < 30<<20; off += 4096 {
			if _, err := file.ReadAt(p, off); err != nil {
				t.Fatal(err)
			}
		}
	}
	wantRequests := func(what, want string) {
		t.Helper()
		if got := strings.Join(f.Asked(), ","); got != want {
			t.Errorf("%s asks %s, want %s", what, got, want)
		}
	}
	readOn(open("f"), 0)
	wantRequests("reading all", "GET f")
	if n, err := open("small").FetchTo(t.Context(), make(sliceSink, 1), 0); n != 1 || err != nil {
		t.Errorf("FetchTo of a small file: %d, %v", n, err)
	}
	wantRequests("copying a small file", "GET small")
	// 4096 bytes, 1 MiB, 4 MiB, 16 MiB, and the rest.
	readOn(open("f"), 4<<20)
	wantRequests("reading from 4 MiB on", "GET f,GET f,GET f,GET f,GET f,GET f")
}
