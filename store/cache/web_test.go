package cache

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/web/webclient"
)

// A webLab is a web server with one file. It counts requests and the bytes that it sends.
type webLab struct {
	mu       sync.Mutex
	v        version        // the file's content; guarded by mu
	requests map[string]int // number of requests, by method; guarded by mu
	sent     map[int64]int  // number of bytes sent, by block; guarded by mu
}

func (l *webLab) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.requests[r.Method]++
	v := l.v
	l.mu.Unlock()
	w.Header().Set("Content-Type", "application/octet-stream") // otherwise the first bytes are read twice
	w.Header().Set("ETag", `"`+string(rune('0'+v.number))+`"`)
	body := io.NewSectionReader(sentBytes{l, v}, 0, v.size)
	http.ServeContent(w, r, "f", time.Unix(int64(v.number)*1000, 0), body)
}

// sentBytes reads the bytes of a version, and counts them as they are sent.
type sentBytes struct {
	l *webLab
	v version
}

func (s sentBytes) ReadAt(p []byte, off int64) (int, error) {
	p = p[:min(int64(len(p)), s.v.size-off, blockSize-off%blockSize)]
	s.v.fill(p, off)
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.l.sent[off/blockSize] += len(p)
	return len(p), nil
}

// In front of a web server, one request fetches all of a file, and no byte is sent twice, however
// often the file is read. The ETag distinguishes versions. A HEAD shows whether a file is still the
// same.
func TestWeb(t *testing.T) {
	l, source := newLab(), &webLab{requests: map[string]int{}, sent: map[int64]int{}}
	v := l.put("f", 5*blockSize+100)
	source.v = v
	server := httptest.NewServer(source)
	defer server.Close()
	client, err := webclient.New(server.URL, webclient.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	dir := t.TempDir()
	c := openCache(t, Config{Dir: dir})
	k := setClock(c)
	s := c.Store(server.URL, client)
	var asks uint64
	want := func(gets, heads int) {
		t.Helper()
		eventually(t, "all is stored", func() bool { return c.Stats().Memory == 0 })
		blocks := map[int64]int{}
		for i := range blocksOf(v.size) * int64(gets) {
			blocks[i] = blockLen(v.size, i)
		}
		source.mu.Lock()
		defer source.mu.Unlock()
		if source.requests["GET"] != gets || source.requests["HEAD"] != heads || !maps.Equal(source.sent, blocks) {
			t.Errorf("%v sent %v bytes of blocks, want %d GET, %d HEAD, and %v", source.requests, source.sent, gets, heads, blocks)
		}
		asks += uint64(gets + heads)
		if n := c.Stats().Asks; n != asks {
			t.Errorf("%d questions to the source, want %d", n, asks)
		}
		clear(source.requests)
		clear(source.sent)
	}
	for range 3 {
		wantFile(t, s, "f", v) // a block that is still being stored is available, too
	}
	want(1, 0)
	k.add(DefaultFresh)
	wantFile(t, s, "f", v)
	want(0, 1)
	v = l.put("f", 100)
	source.mu.Lock()
	source.v = v
	source.mu.Unlock()
	k.add(DefaultFresh)
	wantFile(t, s, "f", v)
	want(1, 1)
	if err := c.Close(); err != nil { // the next process also asks with a HEAD
		t.Error(err)
	}
	c, asks = openCache(t, Config{Dir: dir}), 0
	wantFile(t, c.Store(server.URL, client), "f", v)
	want(0, 1)
	if st := c.Stats(); st.FetchErrors > 0 || st.SourceErrors > 0 {
		t.Errorf("%+v", st)
	}
}

// A version or a name that exceeds its share of the disk or of memory is served, but not cached.
func TestLongVersion(t *testing.T) {
	etag := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"`+etag+`"`)
		http.ServeContent(w, r, "f", time.Unix(1000, 0), strings.NewReader("content"))
	}))
	defer server.Close()
	client, err := webclient.New(server.URL, webclient.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for what, x := range map[string]struct {
		name, etag string
		kept       bool
	}{
		"an ETag of 900 bytes":          {"f", strings.Repeat("a", 900), true},
		"an ETag of 60000 bytes":        {"f", strings.Repeat("a", 60000), false},
		"a name of 4 times 1500 bytes":  {strings.Repeat("\xff", 1500), "a", false},
		"a name of 1500 bytes of ASCII": {strings.Repeat("f", 1500), "a", true},
	} {
		etag = x.etag
		dir := t.TempDir()
		c := openCache(t, Config{Dir: dir})
		s := c.Store(server.URL, client)
		if _, err := s.Stat(t.Context(), x.name); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		f := openFile(t, s, x.name)
		if got, err := io.ReadAll(io.NewSectionReader(f, 0, 100)); err != nil || string(got) != "content" {
			t.Errorf("%s: read %q, %v", what, got, err)
		}
		_ = f.Close()
		eventually(t, "it is stored, if it can be", func() bool { st := c.Stats(); return st.Memory == 0 && (st.Fetches == 0 || st.Blocks > 0) })
		if st := c.Stats(); (st.Blocks == 1) != x.kept || (st.Objects == 1) != x.kept || st.Held < used(t, dir) {
			t.Errorf("%s: %d blocks and %d objects are kept, %d bytes are counted, and %d are there", what, st.Blocks, st.Objects, st.Held, used(t, dir))
		}
		_ = c.Close()
	}
}
