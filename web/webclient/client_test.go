package webclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
)

var (
	_ store.RemoteFile            = (*remoteFile)(nil)
	_ store.Versioned             = (*remoteFile)(nil)
	_ store.Filler                = (*putUpload)(nil)
	_ store.Tree                  = tree{}
	_ store.Upload                = (*putUpload)(nil)
	_ http.RoundTripper           = (*transport)(nil)
	_ io.ReaderAt                 = (*remoteFile)(nil)
	_ interface{ error }          = (*StatusError)(nil)
	_ interface{ Unwrap() error } = (*TransferError)(nil)
)

func TestURL(t *testing.T) {
	for _, c := range []struct{ root, name, want string }{
		{"http://h", "a", "http://h/a"},
		{"http://h/", ".", "http://h/"},
		{"https://h:8443/x", "a/b", "https://h:8443/x/a/b"},
		{"http://h/x/", "a b%?#+&;=", "http://h/x/a%20b%25%3F%23%2B&%3B="},
		{"http://[::1]:80/", "grün/日本", "http://[::1]:80/gr%C3%BCn/%E6%97%A5%E6%9C%AC"},
		{"http://h/a%20b/", "c", "http://h/a%20b/c"},
	} {
		client, err := New(c.root, Config{})
		if err != nil {
			t.Fatal(err)
		}
		if got := client.URL(c.name); got != c.want {
			t.Errorf("%s of %s is %s, want %s", c.name, c.root, got, c.want)
		}
		client.Close()
	}
	for _, root := range []string{"", "ftp://h/", "http:///x", "http://u@h/", "http://u:p@h/", "http://h/?q", "http://h/#f", "http://h:99999x/", "::"} {
		if _, err := New(root, Config{}); err == nil {
			t.Errorf("New(%q) takes it", root)
		} else if strings.Contains(err.Error(), "u:p") {
			t.Errorf("New(%q) repeats the password: %v", root, err)
		}
	}
}

func TestStat(t *testing.T) {
	l := startLab(t, map[string][]byte{"a/b": []byte("hello"), "empty": nil})
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		switch r.URL.Path {
		case "/dir":
			http.Redirect(w, r, "/dir/", http.StatusMovedPermanently)
		case "/hidden":
			http.Redirect(w, r, "hidden/", http.StatusMovedPermanently)
		case "/dir/":
			w.Header().Set("Content-Type", "text/html")
		case "/hidden/", "/secret":
			w.WriteHeader(http.StatusForbidden)
		case "/signed", "/no-head":
			if r.Method == http.MethodHead {
				w.WriteHeader(map[string]int{"/signed": http.StatusForbidden, "/no-head": http.StatusMethodNotAllowed}[r.URL.Path])
				break
			}
			l.serveLabFile(w, r, labFile{content: []byte("12345678"), etag: `"s"`})
		default:
			return false
		}
		return true
	})
	c := l.client(Config{})
	for _, want := range []struct {
		name string
		size int64
		dir  bool
	}{{"a/b", 5, false}, {"empty", 0, false}, {"dir", 0, true}, {"hidden", 0, true}, {".", 0, true}, {"signed", 8, false}, {"no-head", 8, false}} {
		fi, err := c.Stat(t.Context(), want.name)
		if err != nil {
			t.Errorf("stat %s: %v", want.name, err)
			continue
		}
		if fi.Size() != want.size || fi.IsDir() != want.dir {
			t.Errorf("%s: %d bytes, directory %v", want.name, fi.Size(), fi.IsDir())
		}
	}
	if fi, err := c.Stat(t.Context(), "a/b"); err != nil || !fi.ModTime().Equal(labTime) || fi.Name() != "b" || fi.Mode() != 0o644 {
		t.Errorf("a/b: %v, %v", fi, err)
	}
	for _, want := range []struct {
		name string
		kind error
	}{{"missing", fs.ErrNotExist}, {"secret", fs.ErrPermission}, {"../a", fs.ErrInvalid}, {"a\x00", fs.ErrInvalid}} {
		_, err := c.Stat(t.Context(), want.name)
		wantIs(t, want.name, err, want.kind)
		if want.kind != fs.ErrInvalid && !IsRemote(err) {
			t.Errorf("%s: %v is not the server's", want.name, err)
		}
	}
	_, err := c.Open(t.Context(), "dir")
	wantIs(t, "open a directory", err, store.ErrNotRegular)
}

// Stat and the download of Config.First share one request.
func TestFirst(t *testing.T) {
	l := startLab(t, map[string][]byte{"a": []byte("hello")})
	c := l.client(Config{First: "a"})
	if fi, err := c.Stat(t.Context(), "a"); err != nil || fi.Size() != 5 {
		t.Fatal(fi, err)
	}
	wantFetch(t, openRemoteFile(t, c, "a"), []byte("hello"), 0)
	if n := len(l.asked()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
	// The answer is used only once.
	wantFetch(t, openRemoteFile(t, c, "a"), []byte("hello"), 0)
}

func TestReads(t *testing.T) {
	const buffer = clientBuffer
	for _, size := range []int{0, 1, 5, buffer - 1, buffer, buffer + 1, 3*firstRun + 7} {
		content := randomContent(size)
		l := startLab(t, map[string][]byte{"f": content})
		c := l.client(Config{})
		for _, off := range []int64{0, 1, int64(size) / 2, int64(size) - 1, int64(size), int64(size) + 1} {
			if off < 0 || off > int64(size) {
				continue
			}
			wantFetch(t, openRemoteFile(t, c, "f"), content, off)
		}
		f := openRemoteFile(t, c, "f")
		if got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40)); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes: read in order: %d bytes, %v", size, len(got), err)
		}
		// Read backwards, so that each read is at an unexpected offset.
		p := make([]byte, 100_001)
		for off := int64(size); off >= 0; off -= int64(size)/7 + 1 {
			n, err := f.ReadAt(p, off)
			want := content[off:min(int(off)+len(p), size)]
			if !bytes.Equal(p[:n], want) || (err == io.EOF) != (n < len(p)) || err != nil && err != io.EOF {
				t.Errorf("%d bytes: ReadAt %d: %d bytes, %v", size, off, n, err)
			}
		}
		if n, err := f.ReadAt(p, int64(size)+10); n != 0 || err != io.EOF {
			t.Errorf("behind the end: %d, %v", n, err)
		}
	}
}

// If a server supports no ranges, a read at another offset reads the file from its beginning.
func TestWithoutRanges(t *testing.T) {
	content := randomContent(3 << 20)
	for _, announced := range []bool{true, false} {
		l := startLab(t, nil)
		l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
			if announced {
				w.Header().Set("Accept-Ranges", "none")
			}
			w.Header().Set("ETag", `"1"`)
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			_, _ = w.Write(content)
			return true
		})
		c := l.client(Config{})
		wantFetch(t, openRemoteFile(t, c, "f"), content, 0)
		wantFetch(t, openRemoteFile(t, c, "f"), content, 2<<20)
		f := openRemoteFile(t, c, "f")
		p := make([]byte, 1000)
		for _, off := range []int64{2_000_000, 10, 2_500_000, 3<<20 - 1000} {
			if _, err := f.ReadAt(p, off); err != nil || !bytes.Equal(p, content[off:off+1000]) {
				t.Errorf("ReadAt %d: %v", off, err)
			}
		}
	}
}

// A file of unknown size, in chunks, ends with its last chunk.
func TestUnknownSize(t *testing.T) {
	content := randomContent(1 << 20)
	l := startLab(t, nil)
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		_, _ = w.Write(content)
		return true
	})
	c := l.client(Config{})
	fi, err := c.Stat(t.Context(), "f")
	if err != nil || fi.Size() != -1 {
		t.Errorf("stat: %v, %v", fi, err)
	}
	f := openRemoteFile(t, c, "f")
	if f.Version() != "" {
		t.Errorf("its version is %q", f.Version())
	}
	wantFetch(t, f, content, 0)
	got, err := io.ReadAll(io.NewSectionReader(openRemoteFile(t, c, "f"), 0, 1<<40))
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// If a connection is slow, the client opens more, and receives the file over all of them.
func TestParallel(t *testing.T) {
	content := randomContent(24 << 20)
	for _, secure := range []bool{false, true} {
		l := newLab(t, map[string][]byte{"f": content})
		var conns sync.Map
		ranged := make(chan struct{})
		var once sync.Once
		l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
			conns.Store(r.RemoteAddr, true)
			if r.Header.Get("Range") != "" {
				once.Do(func() { close(ranged) })
				return false
			}
			w.Header().Set("ETag", `"1"`)
			w.Header().Set("Accept-Ranges", "bytes")
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			_, _ = w.Write(content[:1<<20])
			_ = http.NewResponseController(w).Flush()
			<-ranged // this answer continues only after another request
			_, _ = w.Write(content[1<<20:])
			return true
		})
		l.Server = httptest.NewUnstartedServer(l)
		l.EnableHTTP2 = secure
		o := Config{}
		if secure {
			l.StartTLS()
			o.TLS = l.Client().Transport.(*http.Transport).TLSClientConfig
		} else {
			l.Start()
		}
		t.Cleanup(l.Close)
		wantFetch(t, openRemoteFile(t, l.client(o), "f"), content, 0)
		n := 0
		conns.Range(func(any, any) bool { n++; return true })
		if n < 2 {
			t.Errorf("%d connections, want several", n)
		}
		for _, r := range l.asked() {
			if r.Header.Get("Range") != "" && r.Header.Get("If-Range") != `"1"` {
				t.Errorf("a range is asked for without If-Range: %v", r.Header)
			}
		}
	}
}

// If HTTP/1.1 connections fail, parts arrive over HTTP/2.
func TestHTTP2Alone(t *testing.T) {
	content := randomContent(24 << 20)
	l := newLab(t, map[string][]byte{"f": content})
	ranged := make(chan struct{})
	var once sync.Once
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		switch {
		case r.ProtoMajor == 1:
			panic(http.ErrAbortHandler)
		case r.Header.Get("Range") != "":
			once.Do(func() { close(ranged) })
			return false
		}
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Accept-Ranges", "bytes")
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content[:1<<20])
		_ = http.NewResponseController(w).Flush()
		<-ranged
		_, _ = w.Write(content[1<<20:])
		return true
	})
	l.Server = httptest.NewUnstartedServer(l)
	l.EnableHTTP2 = true
	l.StartTLS()
	t.Cleanup(l.Close)
	c := l.client(Config{TLS: l.Client().Transport.(*http.Transport).TLSClientConfig})
	wantFetch(t, openRemoteFile(t, c, "f"), content, 0)
}

// Only one connection is used if nothing distinguishes the versions of a file, or if the
// configuration allows only one.
func TestNotParallel(t *testing.T) {
	content := randomContent(24 << 20)
	const lately = "the date of the answer" // a Last-Modified equal to it is not strong
	for _, c := range []struct {
		o                      Config
		etag, modified, ranges string
	}{
		{Config{Parts: -1}, `"1"`, "", "bytes"},
		{Config{}, "", "", "bytes"},
		{Config{}, `W/"1"`, lately, "bytes"},
		{Config{}, `"1"`, "", "none"},
	} {
		l := startLab(t, nil)
		l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
			if r.Header.Get("Range") != "" {
				t.Errorf("a range was asked for: %v", r.Header)
			}
			w.Header().Set("ETag", c.etag)
			w.Header().Set("Accept-Ranges", c.ranges)
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			if c.modified == lately {
				now := time.Now().UTC().Format(http.TimeFormat)
				w.Header().Set("Date", now)
				w.Header().Set("Last-Modified", now)
			}
			_, _ = w.Write(content[:1<<20])
			_ = http.NewResponseController(w).Flush()
			time.Sleep(3 * splitAfter) // enough time to start another connection
			_, _ = w.Write(content[1<<20:])
			return true
		})
		wantFetch(t, openRemoteFile(t, l.client(c.o), "f"), content, 0)
	}
}

func TestHash(t *testing.T) {
	l := startLab(t, map[string][]byte{"f": []byte("hello")})
	const sum = "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=" // the SHA-256 of hello
	header := http.Header{}
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		if r.Header.Get("Want-Repr-Digest") != "" {
			maps.Copy(w.Header(), header)
		}
		return false
	})
	f := openRemoteFile(t, l.client(Config{}), "f")
	for _, h := range []http.Header{
		{"Repr-Digest": {"sha-256=:" + sum + ":"}},
		{"Repr-Digest": {"sha-512=:AA==:, SHA-256=:" + sum + ":"}},
		{"Digest": {"sha-256=" + sum}},
	} {
		header = h
		name, got, err := f.Hash(t.Context(), 0, 5, "sha256", "md5")
		if err != nil || name != "sha256" || fmt.Sprintf("%x", got) != "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" {
			t.Errorf("%v: %s %x %v", h, name, got, err)
		}
	}
	for _, h := range []http.Header{{}, {"Repr-Digest": {"sha-256=:AAAA:"}}, {"Repr-Digest": {"sha-256=" + sum}}, {"Repr-Digest": {"md5=:AA==:"}}} {
		header = h
		_, _, err := f.Hash(t.Context(), 0, 5, "sha256")
		wantIs(t, fmt.Sprint(h), err, errors.ErrUnsupported)
	}
	header = http.Header{"Repr-Digest": {"sha-256=:" + sum + ":"}}
	for _, c := range []struct{ off, n int64 }{{0, 4}, {1, 4}} {
		_, _, err := f.Hash(t.Context(), c.off, c.n, "sha256")
		wantIs(t, "a part", err, errors.ErrUnsupported)
	}
	_, _, err := f.Hash(t.Context(), 0, 5, "md5")
	wantIs(t, "another hash", err, errors.ErrUnsupported)
	l.mu.Lock()
	l.files["f"] = labFile{[]byte("hullo"), `"2"`, labTime}
	l.mu.Unlock()
	_, _, err = f.Hash(t.Context(), 0, 5, "sha256")
	wantIs(t, "another version", err, ErrChanged)
}

func TestRemove(t *testing.T) {
	l := startLab(t, map[string][]byte{"f": nil})
	c := l.client(Config{})
	if err := c.Remove(t.Context(), "f"); err != nil {
		t.Error(err)
	}
	wantIs(t, "again", c.Remove(t.Context(), "f"), fs.ErrNotExist)
	wantIs(t, "the root", c.Remove(t.Context(), "."), fs.ErrPermission)
}

func TestNoLinks(t *testing.T) {
	l := startLab(t, nil)
	_, err := l.client(Config{}).Tree().Readlink(t.Context(), "f")
	wantIs(t, "readlink", err, fs.ErrInvalid)
	if n := len(l.asked()); n != 0 {
		t.Errorf("the server was asked %d times", n)
	}
}

// Transfers stop when the client or the file is closed, or when the context ends.
func TestEnds(t *testing.T) {
	for what, end := range map[string]func(c *Client, f *remoteFile, cancel func()){
		"client":  func(c *Client, _ *remoteFile, _ func()) { c.Close() },
		"file":    func(_ *Client, f *remoteFile, _ func()) { f.Close() },
		"context": func(_ *Client, _ *remoteFile, cancel func()) { cancel() },
	} {
		l := startLab(t, nil)
		begun := make(chan struct{})
		over := make(chan struct{})
		l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("x"))
			_ = http.NewResponseController(w).Flush()
			close(begun)
			<-over
			return true
		})
		c := l.client(Config{})
		f := openRemoteFile(t, c, "f")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := f.FetchTo(ctx, &memWriter{}, 0)
			done <- err
		}()
		<-begun
		end(c, f, cancel)
		err := <-done
		if what == "context" {
			wantIs(t, what, err, context.Canceled)
		} else {
			wantIs(t, what, err, fs.ErrClosed)
		}
		close(over)
		cancel()
		l.Close()
	}
}

// An error of the caller's writer is a local error.
func TestLocalError(t *testing.T) {
	l := startLab(t, map[string][]byte{"f": randomContent(2 << 20)})
	full := errors.New("no room")
	f := openRemoteFile(t, l.client(Config{}), "f")
	_, err := f.FetchTo(t.Context(), &memWriter{fail: full, after: 1 << 20}, 0)
	wantIs(t, "fetch", err, full)
	if IsRemote(err) {
		t.Errorf("%v is said to be the server's", err)
	}
	var moved *TransferError
	if !errors.As(err, &moved) || !moved.Local || moved.Offset > 1<<20 {
		t.Errorf("%#v", err)
	}
}
