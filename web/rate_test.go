package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/web"
)

// A client cannot exceed its rate by requesting only small files, or by leaving instead of waiting.
func TestRateOfManySmall(t *testing.T) {
	const n, size, rate = 20, 10_000, 20_000
	st := mem(t, map[string]string{"f": string(pattern(size))})
	for name, h := range map[string]*web.Handler{
		"of all":        {Rate: rate, Store: st, Access: web.AccessOverwrite},
		"of a source":   {RatePerSource: rate, Store: st, Access: web.AccessOverwrite},
		"of an account": {Account: account(web.Account{User: "me", Store: st, Access: web.AccessOverwrite, Rate: rate})},
	} {
		for _, method := range []string{"GET", "PUT"} {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				for range n {
					ctx, leave := context.WithCancel(t.Context())
					r := httptest.NewRequestWithContext(ctx, method, "/f", strings.NewReader(string(pattern(size))))
					w := &leaver{discard{http.Header{}}, leave}
					h.ServeHTTP(w, r)
					leave()
				}
				if took, least := time.Since(began), (n-2)*size*time.Second/rate; took < least {
					t.Errorf("%s, %s: %d bytes took %v, at %d a second", name, method, n*size, took, rate)
				}
			})
		}
	}
}

// A leaver is a client that leaves as soon as it has an answer.
type leaver struct {
	discard
	leave func()
}

func (l *leaver) Write(p []byte) (int, error) {
	defer l.leave()
	return l.discard.Write(p)
}

// Each source has its own rate: an address, or an IPv6 network of 64 bits. A peer without an
// address, and an account with its own rate, are not subject to that rate.
func TestRatePerSource(t *testing.T) {
	const n, size, rate = 10, 10_000, 20_000
	const limited, free = (n - 2) * size * time.Second / rate, time.Second
	st := mem(t, map[string]string{"f": string(pattern(size))})
	own := account(web.Account{User: "me", Store: st, Rate: 1 << 40})
	for _, test := range []struct {
		name  string
		h     *web.Handler
		peers []string // sending at the same time
		least time.Duration
		most  time.Duration
	}{
		{"one", &web.Handler{Store: st}, []string{"192.0.2.1:1", "192.0.2.1:2"}, limited, 2 * limited},
		{"two", &web.Handler{Store: st}, []string{"192.0.2.1:1", "192.0.2.2:1"}, limited / 4, limited * 3 / 4},
		{"one of IPv6", &web.Handler{Store: st}, []string{"[2001:db8::1]:1", "[2001:db8::2]:1"}, limited, 2 * limited},
		{"without an address", &web.Handler{Store: st}, []string{"@"}, 0, free},
		{"a user's", &web.Handler{Account: own}, []string{"192.0.2.1:1"}, 0, free},
	} {
		synctest.Test(t, func(t *testing.T) {
			h, began := test.h, time.Now()
			h.RatePerSource = rate
			var all sync.WaitGroup
			for _, peer := range test.peers {
				all.Go(func() {
					for range n / len(test.peers) {
						r := httptest.NewRequestWithContext(t.Context(), "GET", "/f", nil)
						r.RemoteAddr = peer
						h.ServeHTTP(&discard{http.Header{}}, r)
					}
				})
			}
			all.Wait()
			if took := time.Since(began); took < test.least || took > test.most {
				t.Errorf("%s: %d bytes took %v, want %v to %v", test.name, n*size, took, test.least, test.most)
			}
		})
	}
}
