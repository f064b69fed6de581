package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
	"github.com/haul-project/haul/users"
)

// If a server stops, calls return store.ErrUnavailable, and this is logged once. When the server
// runs again, the source reconnects, and reads of open files continue.
func TestSFTPBack(t *testing.T) {
	files := store.Mem(0)
	storetest.Put(t, files, "old", strings.Repeat("0123456789", 100_000))
	storetest.Put(t, files, "new", strings.Repeat("abc", 100_000))
	if err := files.SetAttr(t.Context(), "old", store.Attr{ModTime: time.Now().Add(-time.Hour)}, false); err != nil {
		t.Fatal(err)
	}
	s, h, log := overSFTP(t, files)
	ctx := t.Context()
	var opened [2]store.File
	part := make([]byte, 100)
	for i, name := range []string{"old", "new"} {
		f, err := s.Open(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.ReadAt(part, 0); err != nil {
			t.Fatal(err)
		}
		opened[i] = f
	}
	h.Stop()
	servetest.Eventually(t, "the loss is noticed", func() bool {
		s.link.mu.Lock()
		defer s.link.mu.Unlock()
		return s.link.conn == nil || s.link.tries > 0 || isGone(s)
	})
	back := time.AfterFunc(300*time.Millisecond, h.Start)
	defer back.Stop()
	if n, err := opened[0].ReadAt(part, 500_000); n != len(part) || err != nil || string(part[:10]) != "0123456789" {
		t.Errorf("read on: %d bytes %q, %v", n, part[:10], err)
	}
	// A file that was written just before it was opened may be a different one now.
	if _, err := opened[1].ReadAt(part, 200_000); !errors.Is(err, store.ErrChanged) {
		t.Errorf("a file that was new: %v", err)
	}
	if fi, err := s.Stat(ctx, "new"); err != nil || fi.Size() != 300_000 {
		t.Errorf("%v, %v", fi, err)
	}
	if n := s.Stats(); n.Connects < 2 || n.Failures == 0 || n.Away {
		t.Errorf("%+v", n)
	}
	if text := log.String(); strings.Count(text, "cannot be reached") != 1 || !strings.Contains(text, "reached again") {
		t.Errorf("the log has %q", text)
	}
}

// isGone sends a request like a client, and reports whether the connection has ended.
func isGone(s *Source) bool {
	_, err := s.link.conn.tree.(*sftpTree).Tree.Lstat(s.link.life, "old")
	return isAway(err)
}

// A server that refuses this machine or does not exist counts as unavailable. After a long time,
// calls fail at once, except for an occasional one that tries again.
func TestAway(t *testing.T) {
	h := servetest.NewSFTPHost(t, sftp.Account{Tree: store.Mem(0), Access: users.Full})
	key := filepath.Join(h.Home, ".ssh", "id_ed25519")
	if err := os.Rename(key, key+".later"); err != nil {
		t.Fatal(err)
	}
	s, log := open(t, "sftp://nas/", h.Home)
	_, err := s.Stat(t.Context(), ".")
	if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, fs.ErrPermission) || !strings.Contains(log.String(), "logs in by the keys") {
		t.Errorf("without a key: %v; log %q", err, log)
	}
	// The key is read again without a restart.
	if err := os.Rename(key+".later", key); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Stat(t.Context(), "."); err != nil {
		t.Errorf("with the key: %v", err)
	}
	s.link.mu.Lock()
	s.link.away, s.link.err = time.Now().Add(-2*patience), errSlow
	s.link.mu.Unlock()
	for i, want := range []bool{false, true, true} {
		err := s.link.admit()
		if refused := errors.Is(err, store.ErrUnavailable); refused != want {
			t.Errorf("call %d of a source that is away for long: %v", i+1, err)
		}
	}
	if _, err := Open(t.Context(), "sftp://nowhere/", Config{Say: s.link.log}); err != nil {
		t.Errorf("a server whose source is away does not start: %v", err)
	}
}

// A web server that hangs causes a timeout, whatever the request. If its password has changed, the
// next request uses the new one.
func TestWebFaults(t *testing.T) {
	var hang atomic.Bool
	password, etag := "first", `"v1"`
	release := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hang.Load() {
			<-release
		}
		switch _, given, _ := r.BasicAuth(); {
		case given != password:
			w.Header().Set("WWW-Authenticate", `Basic realm="files"`)
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasSuffix(r.URL.Path, "/forbidden"):
			w.WriteHeader(http.StatusForbidden)
		case strings.HasSuffix(r.URL.Path, "/broken"):
			w.WriteHeader(http.StatusInternalServerError)
		case strings.HasSuffix(r.URL.Path, "/page"):
			w.(http.Flusher).Flush()
		case strings.HasSuffix(r.URL.Path, "/list/"):
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`[{"name":"../../etc/passwd","type":"file","size":1},{"name":"..","type":"directory"},{"name":"a/b","type":"file"},` +
				`{"name":"","type":"file"},{"name":"x\u0000","type":"file"},{"name":"good \u001b[31m","type":"file","size":3,"mtime":"Wed, 01 Jan 2025 00:00:00 GMT"}]`))
		default:
			w.Header().Set("ETag", etag)
			_, _ = w.Write([]byte("content"))
		}
	}))
	defer web.Close()
	defer close(release)
	home := t.TempDir()
	netrc := filepath.Join(home, ".netrc")
	login := func(password string) {
		if err := os.WriteFile(netrc, []byte("machine 127.0.0.1 login boot password "+password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("NETRC", "")
	login("first")
	s, log := open(t, web.URL, home)
	ctx := t.Context()
	f, err := s.Open(ctx, "file")
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := f.(store.Versioned); !ok || !strings.Contains(v.Version(), etag) {
		t.Error("the version of the file is not known")
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]error{"forbidden": fs.ErrPermission, "page": errors.ErrUnsupported} {
		if _, err := s.Open(ctx, name); !errors.Is(err, want) || errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Open(ctx, "broken"); err == nil || errors.Is(err, store.ErrUnavailable) || s.Stats().Failures != 1 {
		t.Errorf("broken: %v, %+v", err, s.Stats())
	}
	if entries, err := s.ReadDir(ctx, "list"); err != nil || len(entries) != 1 || !strings.HasPrefix(entries[0].Name(), "good") {
		t.Errorf("of a listing with hostile names %v is left, %v", entries, err)
	}

	password = "second"
	if _, err := s.Open(ctx, "file"); !errors.Is(err, store.ErrUnavailable) || strings.Contains(log.String()+err.Error(), "first") {
		t.Errorf("with the old password: %v; log %q", err, log)
	}
	login("second")
	if got := content(t, s, "file"); got != "content" {
		t.Errorf("with the new password: %q", got)
	}

	s, log = open(t, web.URL, home, 100*time.Millisecond)
	hang.Store(true)
	if _, err := s.Stat(ctx, "file"); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(log.String(), "no answer in time") {
		t.Errorf("a server that hangs: %v; log %q", err, log)
	}
}

// If a server refuses connections when haul starts, this is logged at once and only once, although
// the call retries.
func TestRefusedAtStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().String()
	l.Close()
	t.Setenv("AWS_ENDPOINT_URL", "http://"+addr)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	for _, url := range []string{"http://" + addr, "s3://bucket", "sftp://" + addr} {
		s, log := open(t, url, t.TempDir())
		ctx, cancel := context.WithCancel(t.Context())
		var probe sync.WaitGroup
		probe.Go(func() { s.Probe(ctx) })
		servetest.Eventually(t, url+" is in the log", func() bool { return strings.Contains(log.String(), "WARN source: cannot be reached") })
		if s.Stats().Calls > 0 {
			t.Errorf("%s is in the log after the call", url)
		}
		cancel()
		probe.Wait()
		if n := strings.Count(log.String(), "cannot be reached"); n != 1 {
			t.Errorf("%s: the log has it %d times:\n%s", url, n, log)
		}
	}
}

// An error that an administrator has to act on is logged as a warning, once, whatever its subject.
func TestFaultsAreWarnings(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	for _, tt := range []struct {
		status      int
		code, words string
	}{
		{400, "AuthorizationHeaderMalformed", "set AWS_REGION"},
		{403, "InvalidAccessKeyId", "AWS_ACCESS_KEY_ID"},
		{403, "RequestTimeTooSkewed", "clock"},
		{404, "NoSuchBucket", "check its name"},
		{404, "NoSuchThing", "check the endpoint"},
		{400, "SomethingElse", "SomethingElse"},
	} {
		bucket := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(tt.status)
			if r.Method != http.MethodHead {
				fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", tt.code)
			}
		}))
		t.Setenv("AWS_ENDPOINT_URL", bucket.URL)
		s, log := open(t, "s3://bucket", t.TempDir())
		s.Probe(t.Context())
		if _, err := s.Open(t.Context(), "f"); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", tt.code, err)
		}
		if text := log.String(); strings.Count(text, "WARN") != 1 || strings.Contains(text, "INFO") || !strings.Contains(text, tt.words) {
			t.Errorf("%s: the log has %q", tt.code, text)
		}
		bucket.Close()
	}
}

// A source that sends a byte now and then does not block its readers. The read fails after the time
// allowed for that many bytes, which the log and the counters show. The source does not count as
// unreachable.
func TestTrickle(t *testing.T) {
	ended := make(chan struct{})
	var end sync.Once
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v"`)
		w.Header().Set("Content-Length", strconv.Itoa(4*leastBytes))
		for w.(http.Flusher).Flush(); r.Context().Err() == nil; time.Sleep(5 * time.Millisecond) {
			_, _ = w.Write([]byte("x"))
			w.(http.Flusher).Flush()
		}
		end.Do(func() { close(ended) })
	}))
	defer web.Close()
	s, log := open(t, web.URL, t.TempDir())
	s.link.least = 20 * time.Millisecond
	f, err := s.Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := f.ReadAt(make([]byte, leastBytes), 0); n == leastBytes || !errors.Is(err, errTrickle) || errors.Is(err, store.ErrUnavailable) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, errTrickle) {
		t.Errorf("another read: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	<-ended // the connection is closed
	if n := s.Stats(); n.Failures == 0 || n.Away || !strings.Contains(log.String(), errTrickle.Error()) {
		t.Errorf("%+v; the log has %q", n, log)
	}
}

// lateFile answers a read after it was closed, as if nothing had happened.
type lateFile struct {
	store.File
	closed chan struct{}
}

func (f *lateFile) ReadAt(p []byte, _ int64) (int, error) { <-f.closed; return len(p), nil }

func (f *lateFile) Close() error { close(f.closed); return nil }

// lostFile is a file whose connection is lost.
type lostFile struct{ store.File }

func (lostFile) ReadAt([]byte, int64) (int, error) { return 0, fs.ErrClosed }

// The largest read of haul ends within minutes, however slowly the bytes arrive.
func TestTrickleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, began := &file{link: newLink("", 0, nil)}, time.Now()
		_, err := f.readSome(&lateFile{closed: make(chan struct{})}, make([]byte, 256<<10), 0)
		if took := time.Since(began); took != 220*time.Second || !errors.Is(err, errTrickle) {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// If a file is closed because a read took too long, and the read ends at the same moment, it
// returns the error for that. A read of a file that was opened in its place returns its own error.
func TestTrickleEndsLate(t *testing.T) {
	f := &file{link: &link{least: time.Millisecond}}
	if n, err := f.readSome(&lateFile{closed: make(chan struct{})}, make([]byte, 10), 0); n != 10 || !errors.Is(err, errTrickle) {
		t.Errorf("%d bytes, %v", n, err)
	}
	f.link.least = time.Hour
	if _, err := f.readSome(lostFile{}, make([]byte, 10), 0); !errors.Is(err, fs.ErrClosed) || errors.Is(err, errTrickle) {
		t.Errorf("another file: %v", err)
	}
}

// If a file without an ETag has just changed, its server is not at fault. Nothing is logged.
func TestUnsettledIsNoFault(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	bucket := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		_, _ = w.Write([]byte("content"))
	}))
	defer bucket.Close()
	t.Setenv("AWS_ENDPOINT_URL", bucket.URL)
	s, log := open(t, "s3://bucket", t.TempDir())
	if _, err := s.Open(t.Context(), "f"); !errors.Is(err, store.ErrUnsettled) || errors.Is(err, store.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if n := s.Stats().Failures; n > 0 || strings.Contains(log.String(), "WARN") {
		t.Errorf("%d failures, and the log has %q", n, log)
	}
}

// If an upstream starts late, a write waits for it as a read does, because nothing was sent yet.
func TestWritesWaitAtStart(t *testing.T) {
	files := store.Mem(0)
	storetest.Put(t, files, "old", "content")
	late := func() (url string) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		l.Close()
		server := &http.Server{Handler: webHandler(files)}
		start := time.AfterFunc(300*time.Millisecond, func() {
			l, err := net.Listen("tcp", addr)
			if err != nil {
				t.Error(err)
				return
			}
			_ = server.Serve(l)
		})
		t.Cleanup(func() {
			start.Stop()
			server.Close()
		})
		return "http://" + addr
	}
	s, _ := open(t, late(), t.TempDir())
	storetest.Put(t, s, "new", "content")
	if got := content(t, s, "new"); got != "content" {
		t.Errorf("it has %q", got)
	}
	s, log := open(t, late(), t.TempDir())
	if err := s.Remove(t.Context(), "old"); !errors.Is(err, errors.ErrUnsupported) { // as the server answers
		t.Errorf("%v; the log has %s", err, log)
	}
}
