package cache

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/web/webclient"
)

// In front of a web server, the ETag distinguishes versions; a HEAD shows whether a file is
// still the one that is there, and one request gets all of it.
func TestWeb(t *testing.T) {
	l := newLab()
	v := l.put("f", 5*blockSize+100)
	var mu sync.Mutex
	requests := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requests[r.Method]++
		now := v
		mu.Unlock()
		w.Header().Set("ETag", `"`+string(rune('0'+now.number))+`"`)
		http.ServeContent(w, r, "f", time.Unix(int64(now.number)*1000, 0), bytes.NewReader(now.bytes(0, int(now.size))))
	}))
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
	want := func(gets, heads int) {
		t.Helper()
		eventually(t, "all is stored", func() bool { return c.Stats().Memory == 0 })
		mu.Lock()
		defer mu.Unlock()
		if requests["GET"] != gets || requests["HEAD"] != heads {
			t.Errorf("%v, want %d GET and %d HEAD", requests, gets, heads)
		}
		clear(requests)
	}
	for range 3 {
		wantFile(t, s, "f", v) // a block that is being stored is there, too
	}
	want(1, 0)
	k.add(DefaultFresh)
	wantFile(t, s, "f", v)
	want(0, 1)
	mu.Lock()
	v = l.put("f", 100)
	mu.Unlock()
	k.add(DefaultFresh)
	wantFile(t, s, "f", v)
	want(1, 1)
	if st := c.Stats(); st.FetchErrors > 0 || st.SourceErrors > 0 {
		t.Errorf("%+v", st)
	}
}
