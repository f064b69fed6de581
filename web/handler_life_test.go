package web_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/web"
)

// When Account.Life ends, its requests end too, whether they read, write or wait. Other requests
// continue.
func TestAccountLife(t *testing.T) {
	disabled := errors.New("the user is disabled")
	for _, http2 := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := silentHandler(t)
			// This is more than an HTTP/2 server sends to a client that does not read.
			st := mem(t, map[string]string{"large": string(pattern(8 << 20))})
			life, end := context.WithCancelCause(t.Context())
			h.Account = func(_ context.Context, v web.Visitor) (*web.Account, error) {
				return &web.Account{Store: st, Access: web.AccessFull, Life: life}, nil
			}
			others := silentHandler(t)
			others.Store = st
			told, untouched := ended(h), ended(others)
			w := startPiped(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Host == "other" {
					others.ServeHTTP(w, r)
					return
				}
				h.ServeHTTP(w, r)
			}))
			client := w.client(http2)
			begin := func(method, url string) {
				content, more := io.Pipe()
				t.Cleanup(func() { _ = more.Close() })
				if method == "GET" {
					_ = more.Close()
				} else {
					go func() { _, _ = more.Write(pattern(100_000)) }()
				}
				r, err := http.NewRequestWithContext(t.Context(), method, url, content)
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					if resp, err := client.Do(r); err == nil {
						t.Cleanup(func() { _ = resp.Body.Close() }) // the body is not read
					}
				}()
			}
			begin("GET", "http://x/large")
			begin("PUT", "http://x/new")
			begin("PUT", "http://other/new")
			synctest.Wait()
			time.Sleep(time.Second)
			began := time.Now()
			end(disabled)
			for range 2 {
				x := <-told
				if !errors.Is(x.Err, web.ErrLoginEnded) || !errors.Is(x.Err, disabled) || errors.Is(x.Err, os.ErrDeadlineExceeded) {
					t.Errorf("%s by %s ended by %v", x.Method, x.Proto, x.Err)
				}
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("HTTP/2 %t: they ended after %v", http2, took)
			}
			if got := content(t, st, "new"); got != "no such file" {
				t.Errorf("HTTP/2 %t: the upload is %d bytes", http2, len(got))
			}
			synctest.Wait()
			if len(untouched) > 0 {
				t.Errorf("HTTP/2 %t: ended another: %v", http2, (<-untouched).Err)
			}
		})
	}
}
