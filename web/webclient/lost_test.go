package webclient

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/store/treecopy"
)

// Wherever a connection is cut, the result is the file, and only missing bytes are requested again.
func TestCuts(t *testing.T) {
	const size = 2 << 20
	content := randomContent(size)
	for _, v := range []struct {
		etag     string
		modified time.Time
		guard    string
	}{
		{`"1"`, labTime, `"1"`},
		{"", labTime, labTime.Format(http.TimeFormat)},
		{`W/"1"`, labTime, labTime.Format(http.TimeFormat)},
	} {
		for _, cut := range []int{0, 1, clientBuffer - 1, clientBuffer, clientBuffer + 1, size / 2, size - 1} {
			l := startLab(t, nil)
			f := labFile{content, v.etag, v.modified}
			l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
				if r.Header.Get("Range") == "" {
					cutAfter(w, r, f, cut)
				}
				if got := r.Header.Get("If-Range"); got != v.guard {
					t.Errorf("If-Range is %q, want %q", got, v.guard)
				}
				l.serveLabFile(w, r, f)
				return true
			})
			wantFetch(t, openRemoteFile(t, l.client(Config{}), "f"), content, 0)
			l.Close()
		}
	}
}

// A transfer continues although each answer is cut off, and some contain no data, provided that
// there is progress now and then.
func TestManyCuts(t *testing.T) {
	content := randomContent(6 << 20)
	l := startLab(t, map[string][]byte{"f": content})
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		if n%3 == 1 {
			panic(http.ErrAbortHandler)
		}
		l.serveLabFile(&cuttingWriter{ResponseWriter: w, left: 700_000 + n*1000}, r, l.file("f"))
		return true
	})
	wantFetch(t, openRemoteFile(t, l.client(Config{}), "f"), content, 0)
	// The same applies to reading in order.
	f := openRemoteFile(t, l.client(Config{}), "f")
	p := make([]byte, len(content))
	if n, err := f.ReadAt(p, 0); n != len(p) || err != nil || string(p) != string(content) {
		t.Errorf("ReadAt: %d bytes, %v", n, err)
	}
}

// A cuttingWriter cuts the connection after a number of bytes.
type cuttingWriter struct {
	http.ResponseWriter
	left int
}

func (c *cuttingWriter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p[:min(len(p), c.left)])
	if c.left -= n; c.left == 0 {
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}

// If a server is lost for good, the client gives up after a number of tries.
func TestLost(t *testing.T) {
	l := startLab(t, map[string][]byte{"f": randomContent(1 << 20)})
	ranges := 0
	var mu sync.Mutex
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		if r.Header.Get("Range") == "" {
			cutAfter(w, r, l.file("f"), 1000)
		}
		mu.Lock()
		ranges++
		mu.Unlock()
		panic(http.ErrAbortHandler)
	})
	n, err := openRemoteFile(t, l.client(Config{}), "f").FetchTo(t.Context(), &memWriter{}, 0)
	wantIs(t, "fetch", err, ErrLost)
	mu.Lock()
	defer mu.Unlock()
	// The transport repeats a request if the connection was idle.
	if n != 1000 || ranges == 0 || ranges > 2*maxTries {
		t.Errorf("%d bytes came, after %d requests for the rest", n, ranges)
	}
}

// If nothing distinguishes the versions of a file, the missing bytes are not requested: they could
// belong to another version.
func TestUnguarded(t *testing.T) {
	content := randomContent(1 << 20)
	l := startLab(t, nil)
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		if r.Header.Get("Range") != "" {
			t.Errorf("a range is asked for: %v", r.Header)
		}
		cutAfter(w, r, labFile{content: content, etag: `W/"1"`}, 1000)
		return true
	})
	_, err := openRemoteFile(t, l.client(Config{}), "f").FetchTo(t.Context(), &memWriter{}, 0)
	wantIs(t, "fetch", err, ErrLost)
	p := make([]byte, len(content))
	_, e := openRemoteFile(t, l.client(Config{}), "f").ReadAt(p, 0)
	wantIs(t, "read", e, ErrLost)
	for _, err := range []error{err, e} {
		if !strings.Contains(fmt.Sprint(err), "could be of another version") {
			t.Errorf("it says %v", err)
		}
	}
}

// After a lost connection, a server without ranges sends the whole file again, but the client does
// not write again the bytes that it has.
func TestCutWithoutRanges(t *testing.T) {
	content := randomContent(2 << 20)
	l := startLab(t, nil)
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		f := labFile{content, `"1"`, labTime}
		if n == 0 {
			cutAfter(w, r, f, 1<<20)
		}
		w.Header().Set("ETag", f.etag)
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content)
		return true
	})
	wantFetch(t, openRemoteFile(t, l.client(Config{}), "f"), content, 0)
}

// A refused connection is reported at once.
func TestNobody(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	c, err := New("http://"+listener.Addr().String(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Open(t.Context(), "f")
	wantIs(t, "open", err, ErrLost)
	if strings.Contains(fmt.Sprint(err), "times in a row") {
		t.Errorf("it was tried again: %v", err)
	}
}

// If a server is too busy for a request, the client repeats the request at the time that the server
// names, if that is soon enough.
func TestRetryAfter(t *testing.T) {
	l := startLab(t, map[string][]byte{"f": []byte("hello")})
	after := "0"
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		if n%2 == 1 {
			return false
		}
		w.Header().Set("Retry-After", after)
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	c := l.client(Config{})
	wantFetch(t, openRemoteFile(t, c, "f"), []byte("hello"), 0)
	after = "3600"
	_, err := c.Open(t.Context(), "f")
	var refused *StatusError
	if n := len(l.asked()); !asStatus(err, &refused) || refused.After != time.Hour || n != 3 {
		t.Errorf("after %d requests: %v", n, err)
	}
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	_, err = c.Open(t.Context(), "f")
	if n := len(l.asked()) - 3; !asStatus(err, &refused) || n != maxTries {
		t.Errorf("after %d requests: %v", n, err)
	}
}

// Each wait is reported, whichever request the server is too busy for.
func TestWaiting(t *testing.T) {
	content := randomContent(1 << 20)
	l := startLab(t, map[string][]byte{"f": content})
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		switch n {
		case 0:
			w.WriteHeader(http.StatusTooManyRequests)
		case 1:
			cutAfter(w, r, l.file("f"), 1000)
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			return false
		}
		return true
	})
	var mu sync.Mutex
	var told []int
	c := l.client(Config{Waiting: func(status int, pause time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if told = append(told, status); pause <= 0 {
			t.Errorf("%d: a pause of %v", status, pause)
		}
	}})
	wantFetch(t, openRemoteFile(t, c, "f"), content, 0)
	mu.Lock()
	defer mu.Unlock()
	if want := []int{http.StatusTooManyRequests, http.StatusServiceUnavailable}; !slices.Equal(told, want) {
		t.Errorf("Waiting was called with %v, want %v", told, want)
	}
}

// A download that was cut off resumes in another run, if the file is still the same version.
func TestContinue(t *testing.T) {
	const size = 4 << 20
	content, other := randomContent(size), randomContent(size + 1)[1:]
	for _, changed := range []bool{false, true} {
		l := startLab(t, map[string][]byte{"f": content})
		cutting := true
		l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
			if !cutting || r.Method == http.MethodHead {
				return false
			}
			if r.Header.Get("Range") == "" {
				cutAfter(w, r, l.file("f"), 3<<20)
			}
			w.WriteHeader(http.StatusForbidden)
			return true
		})
		dir, _, err := copyToDir(t, l.client(Config{}), "f", treecopy.Options{Continue: true})
		if err == nil {
			t.Fatal("the copy was not cut off")
		}
		if _, err := os.Stat(filepath.Join(dir, "f")); err == nil {
			t.Error("half a file has its name")
		}
		cutting = false
		want := content
		l.mu.Lock()
		if changed {
			want = other // another file with the same size and date
			l.files["f"] = labFile{other, `"2"`, labTime}
		}
		l.mu.Unlock()
		result, err := copyTo(t, l.client(Config{}), "f", dir, treecopy.Options{Continue: true, Verify: true})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || string(got) != string(want) {
			t.Errorf("changed %v: another file has come: %v", changed, err)
		}
		if (result.Resumed > 0) == changed {
			t.Errorf("changed %v: %d bytes are from before", changed, result.Resumed)
		}
	}
}

func asStatus(err error, to **StatusError) bool { return errors.As(err, to) }
