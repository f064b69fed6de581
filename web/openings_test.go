package web_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/web"
)

// doorStore counts the calls of Open and Create, and blocks them.
type doorStore struct {
	store.Store
	asked atomic.Int64
	shut  atomic.Bool // calls fail instead of blocking
	came  chan struct{}
	open  chan struct{} // closed when calls must not block any more
}

func (d *doorStore) pass() error {
	d.asked.Add(1)
	if d.shut.Load() {
		return errors.ErrUnsupported
	}
	d.came <- struct{}{}
	<-d.open
	return nil
}

func (d *doorStore) Open(ctx context.Context, name string) (store.File, error) {
	if err := d.pass(); err != nil {
		return nil, err
	}
	return d.Store.Open(ctx, name)
}

func (d *doorStore) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	if err := d.pass(); err != nil {
		return nil, err
	}
	return d.Store.Create(ctx, name, c)
}

// The number of requests with open files never exceeds the limit, and one source never has more
// than seven eighths of it. Further requests get 503 before a file is opened.
func TestMaxOpen(t *testing.T) {
	d := &doorStore{Store: mem(t, map[string]string{"f": "text"}), came: make(chan struct{}, 100), open: make(chan struct{})}
	h := &web.Handler{Store: d, Access: web.AccessOverwrite, MaxOpen: 8}
	from := func(peer, request string) answer {
		method, target, _ := strings.Cut(request, " ")
		r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader("new"))
		r.RemoteAddr = peer
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return answer{w.Code, w.Header(), w.Body.String()}
	}
	var all sync.WaitGroup
	defer all.Wait()
	begin := func(peer, request string) {
		all.Go(func() {
			if a := from(peer, request); a.status/100 != 2 {
				t.Errorf("%s of %s: %d %q", request, peer, a.status, a.body)
			}
		})
		<-d.came
	}
	refused := func(peer, request string) {
		t.Helper()
		asked := d.asked.Load()
		d.shut.Store(true)
		defer d.shut.Store(false)
		a := from(peer, request)
		a.want(t, http.StatusServiceUnavailable, "too many files are being sent or taken\n")
		a.wantField(t, "Retry-After", "1")
		if d.asked.Load() != asked {
			t.Error("something was opened first")
		}
	}
	const one, sameNet, other, third = "[2001:db8::1]:1", "[2001:db8::2]:1", "192.0.2.1:1", "192.0.2.2:1"
	for range 6 {
		begin(one, "GET /f")
	}
	begin(sameNet, "PUT /g")
	refused(one, "GET /f")
	refused(sameNet, "PUT /h")
	begin(other, "GET /f")
	refused(other, "GET /f")
	refused(third, "GET /f")
	if a := from(third, "OPTIONS /f"); a.status != http.StatusNoContent {
		t.Errorf("OPTIONS: %d", a.status)
	}
	close(d.open)
	all.Wait()
	for _, peer := range []string{one, third} {
		for range 5 {
			from(peer, "GET /f").want(t, http.StatusOK, "text")
		}
	}
}
