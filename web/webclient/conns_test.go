package webclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
)

// If many files are read and written at a time, the number of connections stays within the client's
// limit, and all transfers are completed, even with one connection.
func TestConns(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const large, small = 12 << 20, 20
	content := bytes.Repeat([]byte("0123456789abcdef"), large/16)
	for _, conns := range []int{1, 3} {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d %v", conns, http2), func(t *testing.T) {
				var open, most atomic.Int64
				s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPut {
						_, _ = io.Copy(io.Discard, r.Body)
						w.WriteHeader(http.StatusCreated)
						return
					}
					w.Header().Set("ETag", `"1"`)
					w.Header().Set("Repr-Digest", "sha-256=:RBNvo1WzZ4oRRq0W9+hknpT7T8If536DEMBg9hyq/4o=:")
					size := large
					if r.URL.Path != "/large" {
						size = 1000
					}
					http.ServeContent(slowly{w}, r, "", time.Time{}, bytes.NewReader(content[:size]))
				}))
				s.Config.ErrorLog = log.New(io.Discard, "", 0)
				if s.EnableHTTP2 = http2; http2 {
					s.StartTLS()
				} else {
					s.Start()
				}
				defer s.Close()
				// Of the connections dialled before the first answer, net/http keeps one for
				// HTTP/2. It closes the others in the background.
				bound := int64(conns)
				if http2 {
					bound += int64(conns - 1)
				}
				dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
					conn, err := new(net.Dialer).DialContext(ctx, network, addr)
					if err != nil {
						return nil, err
					}
					now := open.Add(1)
					// net/http dials a new connection shortly before it closes one that is no
					// longer usable. Wait here until the old one is closed. If no connection is
					// closed, the new one counts as well.
					for begin := time.Now(); now > bound && time.Since(begin) < 300*time.Millisecond; now = open.Load() {
						time.Sleep(time.Millisecond)
					}
					for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
					}
					return &countedConn{Conn: conn, open: &open}, nil
				}
				c, err := New(s.URL, Config{Conns: conns, Dial: dial, TLS: &tls.Config{InsecureSkipVerify: true}})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				var wg sync.WaitGroup
				for i := range small {
					wg.Go(func() { readHashed(t, c, fmt.Sprint(i)) })
					wg.Go(func() { writeFile(t, c, fmt.Sprint("up", i), content[:1000]) })
				}
				for range 2 {
					wg.Go(func() { fetchAll(t, c, "large", large) })
				}
				wg.Wait()
				if got := max(most.Load(), open.Load()); got > bound {
					t.Errorf("%d connections at a time", got)
				}
			})
		}
	}
}

// A countedConn is a connection that counts itself as open until it is closed.
type countedConn struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// slowly is a ResponseWriter so slow that the client requests parts.
type slowly struct{ http.ResponseWriter }

func (s slowly) Write(p []byte) (int, error) {
	if len(p) > 2000 {
		time.Sleep(2 * time.Millisecond)
	}
	return s.ResponseWriter.Write(p)
}

// readHashed opens a file, requests its hash, and reads it.
func readHashed(t *testing.T, c *Client, name string) {
	f, err := c.Open(t.Context(), name)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	if _, _, err := f.(*remoteFile).Hash(t.Context(), 0, 1000, "sha256"); err != nil {
		t.Error(err)
	}
	if n, err := f.ReadAt(make([]byte, 1000), 0); n != 1000 {
		t.Errorf("%s: %d bytes, %v", name, n, err)
	}
}

func writeFile(t *testing.T, c *Client, name string, content []byte) {
	u, err := c.Create(t.Context(), name, store.Create{Size: int64(len(content))})
	if err != nil {
		t.Error(err)
		return
	}
	defer u.Close()
	if _, err := u.WriteAt(content, 0); err != nil {
		t.Error(err)
	}
	if err := u.Commit(); err != nil {
		t.Error(err)
	}
}

func fetchAll(t *testing.T, c *Client, name string, size int64) {
	f, err := c.Open(t.Context(), name)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	if n, err := f.(*remoteFile).FetchTo(t.Context(), discardAt{}, 0); n != size || err != nil {
		t.Errorf("%s: %d bytes, %v", name, n, err)
	}
}

type discardAt struct{}

func (discardAt) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
