package webclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/store/treecopy"
)

// copyToDir copies a file of a client to a new directory, and returns the directory.
func copyToDir(t *testing.T, c *Client, name string, o treecopy.Options) (string, treecopy.Result, error) {
	t.Helper()
	dir := t.TempDir()
	result, err := copyTo(t, c, name, dir, o)
	return dir, result, err
}

func copyTo(t *testing.T, c *Client, name, dir string, o treecopy.Options) (treecopy.Result, error) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	return treecopy.Copy(t.Context(), treecopy.Job{Sources: []treecopy.Source{{Tree: c.Tree(), Name: name}}, To: localdir.New(root), Target: "./", Options: o})
}

// Each answer to the first request is cut off after a part; the answer to the request for the rest
// is false in some way.
func TestHostileRanges(t *testing.T) {
	content := randomContent(1 << 20)
	const cut = 700_000 // so that the client requests the rest as one part
	answer := func(status int, h map[string]string, body []byte) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"1"`)
			for k, v := range h {
				w.Header().Set(k, v)
			}
			w.WriteHeader(status)
			_, _ = w.Write(body)
		}
	}
	rest := func(first, last, total int) string { return fmt.Sprintf("bytes %d-%d/%d", first, last, total) }
	end := len(content) - 1
	for what, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request)
		kind   error
	}{
		"another version":           {answer(206, map[string]string{"Content-Range": rest(cut, end, end+1), "ETag": `"2"`}, content[cut:]), ErrChanged},
		"another size":              {answer(206, map[string]string{"Content-Range": rest(cut, end, end+2)}, content[cut:]), ErrChanged},
		"another whole":             {answer(200, map[string]string{"ETag": `"2"`}, content), ErrChanged},
		"a whole without a tag":     {answer(200, map[string]string{"ETag": ""}, content), ErrChanged},
		"a whole with a weak tag":   {answer(200, map[string]string{"ETag": `W/"1"`}, content), ErrChanged},
		"a shorter whole":           {answer(200, map[string]string{"Content-Length": fmt.Sprint(end)}, content[:end]), ErrChanged},
		"a shorter whole in chunks": {answer(200, nil, content[:end]), ErrLost},
		"a precondition that fails": {answer(412, nil, nil), ErrChanged},
		"no such range":             {answer(416, map[string]string{"Content-Range": "bytes */5"}, nil), ErrChanged},
		"no Content-Range":          {answer(206, nil, content[cut:]), ErrProtocol},
		"a broken Content-Range":    {answer(206, map[string]string{"Content-Range": "bytes 5"}, content[cut:]), ErrProtocol},
		"another range":             {answer(206, map[string]string{"Content-Range": rest(cut-1, end, end+1)}, content[cut-1:]), ErrProtocol},
		"a longer range":            {answer(206, map[string]string{"Content-Range": "bytes 700000-99999999/*"}, content[cut:]), ErrProtocol},
		"a length that differs":     {answer(206, map[string]string{"Content-Range": rest(cut, end, end+1), "Content-Length": "10"}, content[cut:cut+10]), ErrProtocol},
		"several parts": {answer(206, map[string]string{"Content-Type": "multipart/byteranges; boundary=x"},
			[]byte("--x\r\nContent-Range: bytes 300000-300001/1048576\r\n\r\nab\r\n--x--\r\n")), ErrProtocol},
		"a coding":    {answer(206, map[string]string{"Content-Range": rest(cut, end, end+1), "Content-Encoding": "br"}, content[cut:]), ErrEncoded},
		"a refusal":   {answer(403, nil, nil), fs.ErrPermission},
		"it has gone": {answer(404, nil, nil), fs.ErrNotExist},
	} {
		l := startLab(t, map[string][]byte{"f": content})
		l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
			if r.Method == http.MethodHead {
				return false
			}
			if r.Header.Get("Range") == "" {
				cutAfter(w, r, l.file("f"), cut)
			}
			c.answer(w, r)
			return true
		})
		dir, _, err := copyToDir(t, l.client(Config{}), "f", treecopy.Options{})
		wantIs(t, what, err, c.kind)
		if !IsRemote(err) {
			t.Errorf("%s: %v is not the server's", what, err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: %v is left", what, left)
		}
	}
}

// A range that is shorter than requested is not an error: the missing bytes are requested again.
func TestShortRanges(t *testing.T) {
	content := randomContent(1 << 20)
	l := startLab(t, map[string][]byte{"f": content})
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		if r.Header.Get("Range") == "" {
			cutAfter(w, r, l.file("f"), 1000)
		}
		var first, last int
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &first, &last); err != nil {
			t.Error(err)
		}
		last = min(last, first+100_000)
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(content)))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(content[first : last+1])
		return true
	})
	wantFetch(t, openRemoteFile(t, l.client(Config{}), "f"), content, 0)
}

// A range that begins before the requested one is an error, without another try. Otherwise ReadAt
// would return bytes from another offset.
func TestRangeFromBefore(t *testing.T) {
	content := randomContent(4 << 20)
	l := startLab(t, map[string][]byte{"f": content})
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		var first, last int
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &first, &last); err != nil {
			return false
		}
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first-1, last, len(content)))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(content[first-1 : last+1])
		return true
	})
	n, err := openRemoteFile(t, l.client(Config{}), "f").ReadAt(make([]byte, 10), 2<<20)
	wantIs(t, "ReadAt", err, ErrProtocol)
	if n != 0 {
		t.Errorf("ReadAt returns %d bytes of another place", n)
	}
}

// If a server answers a request for a range with an empty body, the client gives up after some
// tries.
func TestEmptyRanges(t *testing.T) {
	content := randomContent(1 << 20)
	l := startLab(t, map[string][]byte{"f": content})
	var ranges atomic.Int64
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		if r.Header.Get("Range") == "" {
			cutAfter(w, r, l.file("f"), 700_000)
		}
		if ranges.Add(1) > 100 {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Content-Range", fmt.Sprintf("bytes 700000-%d/%d", len(content)-1, len(content)))
		w.WriteHeader(http.StatusPartialContent)
		_ = http.NewResponseController(w).Flush() // so that there is no Content-Length
		return true
	})
	n, err := openRemoteFile(t, l.client(Config{}), "f").FetchTo(t.Context(), &memWriter{}, 0)
	wantIs(t, "fetch", err, ErrLost)
	if got := ranges.Load(); n != 700_000 || got > 2*maxTries {
		t.Errorf("%d bytes came, after %d requests for the rest", n, got)
	}
}

// A raw server sends the same bytes over each connection, and closes it.
func rawServer(t *testing.T, answer string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { listener.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 4096)
			_, _ = c.Read(b)
			_, _ = c.Write([]byte(answer))
			c.Close()
		}
	}()
	return "http://" + listener.Addr().String()
}

// If an answer is not HTTP, or is too large, there is an error and no file.
func TestHostileAnswers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for what, c := range map[string]struct {
		answer string
		kind   error
	}{
		"no HTTP":              {"SSH-2.0-x\r\n", ErrProtocol},
		"nothing":              {"", ErrLost},
		"endless headers":      {ok + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 200), ErrProtocol},
		"endless 1xx":          {strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: "+strings.Repeat("y", 1000)+"\r\n\r\n", 200), ErrProtocol},
		"a length that is not": {ok + "Content-Length: -5\r\n\r\n", ErrProtocol},
		"two lengths":          {ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", ErrProtocol},
		"a coding":             {ok + "Content-Length: 5\r\nContent-Encoding: gzip\r\n\r\nhello", ErrEncoded},
		"a part unasked":       {"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-4/9\r\nContent-Length: 5\r\n\r\nhello", ErrProtocol},
		"no content":           {"HTTP/1.1 204 No Content\r\n\r\n", ErrProtocol},
		"a short body":         {ok + "Content-Length: 9\r\n\r\nhello", ErrLost},
		"a broken chunk":       {ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n", ErrProtocol},
		"a chunk that ends":    {ok + "Transfer-Encoding: chunked\r\n\r\n9\r\nhello", ErrLost},
	} {
		client, err := New(rawServer(t, c.answer), Config{First: "f"})
		if err != nil {
			t.Fatal(err)
		}
		client.pause = time.Millisecond
		dir, _, err := copyToDir(t, client, "f", treecopy.Options{})
		wantIs(t, what, err, c.kind)
		if err != nil && !IsRemote(err) {
			t.Errorf("%s: %v is not the server's", what, err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: %v is left", what, left)
		}
		client.Close()
	}
}

// If a server sends text before it gets a request, the error contains that text, even if it arrives
// before the request is sent.
func TestSpeaksFirst(t *testing.T) {
	server := make(chan net.Conn, 100)
	client, err := New("http://host/", Config{Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		server <- theirs
		return early{ours}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	go func() {
		for conn := range server {
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
	}()
	defer close(server)
	// Package http starts to read before it sends the request.
	slow := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { time.Sleep(50 * time.Millisecond) }})
	req, err := http.NewRequestWithContext(slow, http.MethodGet, "http://host/f", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := client.any.Do(req); err == nil || !strings.Contains(err.Error(), `malformed HTTP response "SSH-2.0-x`) {
		t.Errorf("%v, %v", resp, err)
	}
}

// An early connection has text to read at once.
type early struct{ net.Conn }

func (early) Read(p []byte) (int, error) { return copy(p, "SSH-2.0-x\r\n"), nil }

// A compressed file is accepted if its Content-Encoding names its own compression.
func TestCompressedFile(t *testing.T) {
	l := startLab(t, map[string][]byte{"a.tar.gz": []byte("gzip"), "a.tar": []byte("tar")})
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		if got := r.Header.Get("Accept-Encoding"); got != "identity" {
			t.Errorf("Accept-Encoding is %q", got)
		}
		w.Header().Set("Content-Encoding", "x-gzip")
		return false
	})
	c := l.client(Config{})
	if _, err := c.Stat(t.Context(), "a.tar.gz"); err != nil {
		t.Error(err)
	}
	_, err := c.Open(t.Context(), "a.tar")
	wantIs(t, "a.tar", err, ErrEncoded)
}

// If a server stops in the middle, the client gives up with an error that names the server.
func TestStalls(t *testing.T) {
	for _, guarded := range []bool{true, false} {
		for _, answers := range []bool{true, false} {
			l := startLab(t, nil)
			over := make(chan struct{})
			l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
				if !answers || r.Header.Get("Range") != "" {
					<-over
					return true
				}
				if guarded {
					w.Header().Set("ETag", `"1"`)
				}
				w.Header().Set("Content-Length", "100")
				_, _ = w.Write([]byte("hello"))
				_ = http.NewResponseController(w).Flush()
				<-over
				return true
			})
			var err error
			// On a busy machine, even the bytes that the server has sent may arrive after the
			// timeout. Then try a longer one.
			for _, limit := range []time.Duration{200 * time.Millisecond, 5 * time.Second} {
				c, n := l.client(Config{AnswerTimeout: limit, StallTimeout: limit}), int64(0)
				var f store.File
				if f, err = c.Open(t.Context(), "f"); answers && err == nil {
					n, err = f.(*remoteFile).FetchTo(t.Context(), &memWriter{}, 0)
					f.Close()
				}
				if !answers || n == 5 {
					break
				}
				if limit > time.Second {
					t.Errorf("%d bytes came, want 5", n)
				}
			}
			wantIs(t, fmt.Sprintf("guarded %v, answers %v", guarded, answers), err, ErrStalled)
			wantIs(t, "so it is lost", err, ErrLost)
			close(over)
			l.Close()
		}
	}
}

// Redirects are followed, but only a limited number of them, and none from https to http.
func TestRedirects(t *testing.T) {
	l := startLab(t, map[string][]byte{"f": []byte("hello")})
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		switch r.URL.Path {
		case "/near":
			http.Redirect(w, r, "/f", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/odd":
			http.Redirect(w, r, "ftp://127.0.0.1/f", http.StatusFound)
		case "/file":
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusFound)
		case "/controls":
			w.Header().Set("Location", "http://a.example/\x1b[31m")
			w.WriteHeader(http.StatusFound)
		case "/broken":
			w.Header().Set("Location", "http://a b/f")
			w.WriteHeader(http.StatusFound)
		case "/posted":
			http.Redirect(w, r, "/f", http.StatusSeeOther)
		default:
			return false
		}
		return true
	})
	c := l.client(Config{})
	wantFetch(t, openRemoteFile(t, c, "near"), []byte("hello"), 0)
	for _, name := range []string{"loop", "odd", "file", "controls", "broken"} {
		before := len(l.asked())
		_, err := c.Open(t.Context(), name)
		wantIs(t, name, err, ErrProtocol)
		if n := len(l.asked()) - before; n > maxRedirects+1 {
			t.Errorf("%s: %d requests", name, n)
		}
		if name != "loop" && len(l.asked()) != before+1 || err != nil && strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: %d requests, %q", name, len(l.asked())-before, err)
		}
	}
	// A DELETE that became a GET would seem to have succeeded.
	wantIs(t, "DELETE", c.Remove(t.Context(), "posted"), ErrProtocol)

	secure := startSecureLab(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, l.URL+"/f", http.StatusFound) })
	_, err := secure.Open(t.Context(), "f")
	wantIs(t, "from https to http", err, ErrProtocol)
	if err != nil && strings.Contains(err.Error(), "times in a row") {
		t.Errorf("it was tried again: %v", err)
	}
}

// The server that a redirect leads to receives neither the login nor the URL of the first request.
func TestRedirectSecrets(t *testing.T) {
	other := startLab(t, map[string][]byte{"f": []byte("hello")})
	l := startLab(t, nil)
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		if user, password, ok := r.BasicAuth(); !ok || user != "me" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="files"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		http.Redirect(w, r, other.URL+"/f", http.StatusTemporaryRedirect)
		return true
	})
	asked := 0
	c := l.client(Config{User: "me", Query: "token=hidden", Password: func(_ context.Context, user, host, realm string) (string, string, error) {
		asked++
		if user != "me" || realm != "files" || "http://"+host != l.URL {
			t.Errorf("asked for %q at %q of %q", user, host, realm)
		}
		return user, "secret", nil
	}})
	wantFetch(t, openRemoteFile(t, c, "f"), []byte("hello"), 0)
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	for _, r := range other.asked() {
		if r.Header.Get("Authorization") != "" || r.Header.Get("Referer") != "" || strings.Contains(r.URL.String(), "token") {
			t.Errorf("the other server was sent %v %v", r.URL, r.Header)
		}
	}
}

// A login that fails is reported once.
func TestLogin(t *testing.T) {
	l := startLab(t, nil)
	challenge := `Basic realm="x"`
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		w.Header().Set("WWW-Authenticate", challenge)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	asked := 0
	password := func(context.Context, string, string, string) (string, string, error) {
		asked++
		return "me", "wrong", nil
	}
	c := l.client(Config{Password: password})
	for range 2 {
		_, err := c.Open(t.Context(), "f")
		wantIs(t, "a wrong password", err, ErrLogin)
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	if n := len(l.asked()); n != 3 {
		t.Errorf("%d requests, want one without a password and two with it", n)
	}
	challenge = `Negotiate, Digest realm="basics", nonce="x"`
	asked = 0
	_, err := l.client(Config{Password: password}).Open(t.Context(), "f")
	wantIs(t, "another scheme", err, ErrLogin)
	if asked != 0 || !strings.Contains(fmt.Sprint(err), "Negotiate") {
		t.Errorf("asked %d times: %v", asked, err)
	}
	nobody := errors.New("nobody is there")
	_, err = l.client(Config{Eager: true, Password: func(context.Context, string, string, string) (string, string, error) { return "", "", nobody }}).Open(t.Context(), "f")
	wantIs(t, "nobody to ask", err, nobody)
}

func TestBasicRealm(t *testing.T) {
	for _, c := range []struct {
		all   []string
		realm string
		ok    bool
	}{
		{[]string{`Basic realm="a b"`}, "a b", true},
		{[]string{`basic`}, "", true},
		{[]string{`Digest realm="x", Basic realm="y"`}, "y", true},
		{[]string{`Bearer`, `BASIC realm="z", charset="UTF-8"`}, "z", true},
		{[]string{"Basic realm=\"a\x1b[2J\""}, "a?[2J", true},
		{[]string{`Digest realm="basics"`}, "", false},
		{[]string{`Basically`}, "", false},
		{nil, "", false},
	} {
		if realm, ok := basicRealm(c.all); realm != c.realm || ok != c.ok {
			t.Errorf("%q: %q %v", c.all, realm, ok)
		}
	}
}

// An untrusted certificate ends the transfer at once.
func TestCertificate(t *testing.T) {
	secure := startSecureLab(t, func(http.ResponseWriter, *http.Request) {})
	c, err := New(secure.base.String(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Open(t.Context(), "f")
	if !IsCertificateError(err) || !IsRemote(err) || strings.Contains(err.Error(), "times in a row") {
		t.Errorf("%v", err)
	}
}
