package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/web"
)

// A client that asks for small files only, or leaves before it has waited, has no
// more than its rate either.
func TestRateOfManySmall(t *testing.T) {
	const n, size, rate = 20, 10_000, 20_000
	st := mem(t, map[string]string{"f": string(pattern(size))})
	for name, h := range map[string]*web.Handler{
		"of all":        {Rate: rate, Store: st, Access: web.AccessOverwrite},
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
