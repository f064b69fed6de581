package web_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/users"
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

// A gate is a ResponseWriter whose peer receives `after` bytes, and then nothing until it is released.
type gate struct {
	discard
	after            int
	reached, release chan struct{}
	status           int
}

func newGate(after int) *gate {
	return &gate{discard: discard{http.Header{}}, after: after, reached: make(chan struct{}), release: make(chan struct{})}
}

func (g *gate) WriteHeader(status int) { g.status = status }

func (g *gate) Write(p []byte) (int, error) {
	if g.after >= 0 {
		if g.after -= len(p); g.after < 0 {
			close(g.reached)
			<-g.release
		}
	}
	return len(p), nil
}

// A visitor sends requests to a handler.
type visitor struct {
	h          http.Handler
	peer, user string
}

func (v visitor) request(t testing.TB, ctx context.Context, request, body string) *http.Request {
	t.Helper()
	method, target, _ := strings.Cut(request, " ")
	r := httptest.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	r.RemoteAddr = v.peer
	if v.user != "" {
		r.SetBasicAuth(v.user, "secret")
	}
	return r
}

func (v visitor) ask(t testing.TB, request, body string) answer {
	t.Helper()
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				panic(p)
			}
		}()
		v.h.ServeHTTP(w, v.request(t, t.Context(), request, body))
	}()
	return answer{w.Code, w.Header(), w.Body.String()}
}

// stick begins a request whose answer is received up to `after` bytes. It returns a function that
// lets the rest of the answer through.
func (v visitor) stick(t testing.TB, request string, after int) (release func()) {
	t.Helper()
	g, done := newGate(after), make(chan struct{})
	r := v.request(t, t.Context(), request, "")
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		v.h.ServeHTTP(g, r)
	}()
	select {
	case <-g.reached:
	case <-done:
		t.Fatalf("%s of %s is answered by %d before it sticks", request, v.peer, g.status)
	}
	return sync.OnceFunc(func() { close(g.release); <-done })
}

// hall is a store with one large directory of empty files, into which files can be put.
type hall struct {
	flat
	into store.Store
}

func (h hall) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	return h.into.Create(ctx, name, c)
}

const busyListing = "too many large directories are being listed\n"

// served asks for a listing, archives and an upload, which must all arrive.
func (v visitor) served(t *testing.T) {
	t.Helper()
	v.ask(t, "GET /?json", "").want(t, http.StatusOK, "*")
	if a := v.ask(t, "GET /?archive=tar", ""); a.status != http.StatusOK || !strings.HasSuffix(a.body, strings.Repeat("\x00", 1024)) {
		t.Errorf("a tar: %d, %d bytes, cut off", a.status, len(a.body))
	}
	if a := v.ask(t, "GET /?archive=zip", ""); a.status != http.StatusOK || !strings.Contains(a.body[max(0, len(a.body)-200):], "PK\x05\x06") {
		t.Errorf("a zip: %d, %d bytes, cut off", a.status, len(a.body))
	}
	v.ask(t, "PUT /new", "new").want(t, http.StatusCreated, "*")
}

// The lists of one source, which is an address or a user, take no more than half of the entries that
// may be in memory. Other sources are served meanwhile. The entries are released at the end.
func TestListingShares(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("takes seconds, and minutes with the race detector")
	}
	const one, sameNet, other = "[2001:db8::1]:1", "[2001:db8::2]:1", "192.0.2.1:1"
	password := hashOf(t, "secret")
	both := newClub(t, users.User{Name: "alice", Password: password, Access: users.Full}, users.User{Name: "bob", Password: password, Access: users.Full})
	both.PlainPasswords = true
	for _, test := range []struct {
		name             string
		h                *web.Handler
		one, same, other visitor
	}{
		{"addresses", &web.Handler{}, visitor{peer: one}, visitor{peer: sameNet}, visitor{peer: other}},
		{"users", both.Handler, visitor{peer: one, user: "alice"}, visitor{peer: other, user: "alice"}, visitor{peer: one, user: "bob"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := web.MaxListing
			test.h.Listing = true
			test.h.Account = func(context.Context, web.Visitor) (*web.Account, error) {
				return &web.Account{Store: hall{flat{crowd{n: n}}, store.Mem(0)}, Access: web.AccessFull}, nil
			}
			test.one.h, test.same.h, test.other.h = test.h, test.h, test.h
			first := test.one.stick(t, "GET /?json", 0)
			second := test.same.stick(t, "GET /?archive=tar", 0)
			for _, v := range []visitor{test.one, test.same} {
				a := v.ask(t, "GET /", "")
				a.want(t, http.StatusServiceUnavailable, busyListing)
				a.wantField(t, "Retry-After", "1")
				v.ask(t, "GET /?archive=zip", "").want(t, http.StatusServiceUnavailable, busyListing)
				v.ask(t, "PUT /new", "new").want(t, http.StatusCreated, "*")
			}
			test.other.ask(t, "GET /", "").want(t, http.StatusOK, "*")
			n = 1000
			test.other.served(t)
			n = web.MaxListing
			first()
			second()
			test.one.ask(t, "GET /", "").want(t, http.StatusOK, "*")
			third := test.one.stick(t, "GET /", 0)
			defer third()
			test.same.ask(t, "GET /", "").want(t, http.StatusOK, "*")
		})
	}
}

// However many sources hold lists, the next one can still list a directory.
func TestListingOfManySources(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("takes seconds, and minutes with the race detector")
	}
	n := web.MaxListing
	h := &web.Handler{Listing: true, Account: func(context.Context, web.Visitor) (*web.Account, error) {
		return &web.Account{Store: hall{flat{crowd{n: n}}, store.Mem(0)}, Access: web.AccessFull}, nil
	}}
	for i := range 4 {
		v := visitor{h: h, peer: fmt.Sprintf("192.0.2.%d:1", i)}
		for n = web.MaxListing; n > 0; n /= 2 { // as many entries as it can get
			if v.ask(t, "GET /", "").status == http.StatusOK {
				defer v.stick(t, "GET /", 0)()
			}
		}
	}
	n = 1000
	visitor{h: h, peer: "192.0.2.5:1"}.served(t)
}

// The entries of a list are released while it is sent, so lists that are nearly sent leave room for
// others.
func TestListingReleased(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("takes seconds, and minutes with the race detector")
	}
	for request, size := range lineSizes {
		v := visitor{h: &web.Handler{Store: flat{crowd{n: web.MaxListing}}, Listing: true}, peer: "192.0.2.1:1"}
		for range 2 { // two that are held whole would be all that a source may have
			defer v.stick(t, request, size*web.MaxListing*7/8)()
		}
		if a := v.ask(t, "GET /?json", ""); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", request, a.status, a.body)
		}
	}
}

// lineSizes has the bytes that an entry of a crowd takes in an answer, or few less.
var lineSizes = map[string]int{"GET /": 90, "GET /?json": 74, "GET /?archive=tar": 512}

// The memory of a list is freed while it is sent.
func TestListingFreed(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("takes seconds, and minutes with the race detector")
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // the first one may leave what was allocated while it ran
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for request, size := range lineSizes {
		v := visitor{h: &web.Handler{Store: flat{crowd{n: web.MaxListing}}, Listing: true}, peer: "192.0.2.1:1"}
		before := heap()
		whole := v.stick(t, request, 0)
		all := heap() - before
		whole()
		before = heap()
		most := v.stick(t, request, size*web.MaxListing*7/8)
		left := heap() - before
		most()
		if all < 50*web.MaxListing || left > all/2 {
			t.Errorf("%s: %d bytes at the beginning, and %d when seven eighths are sent", request, all, left)
		}
	}
}

// A list releases its entries also if its request is canceled, or the store fails or panics.
func TestListingEnds(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("takes seconds, and minutes with the race detector")
	}
	var fault func()
	h := &web.Handler{Store: faulty{flat{crowd{n: web.MaxListing}}, &fault}, Listing: true}
	v := visitor{h: h, peer: "192.0.2.1:1"}
	for _, request := range []string{"GET /", "GET /?archive=zip"} {
		for _, what := range []string{"panics", "is canceled"} {
			for range 2 { // all that a source may have
				ctx, cancel := context.WithCancel(t.Context())
				fault = cancel
				if what == "panics" {
					fault = func() { panic("planted") }
				}
				func() {
					defer func() { _ = recover() }()
					h.ServeHTTP(newGate(-1), v.request(t, ctx, request, ""))
				}()
				cancel()
			}
			fault = func() {}
			if a := v.ask(t, "GET /?json", ""); a.status != http.StatusOK {
				t.Errorf("after %s that %s: %d %s", request, what, a.status, a.body)
			}
		}
	}
}

// faulty calls *fault after the last entry of a directory.
type faulty struct {
	flat
	fault *func()
}

func (f faulty) Capabilities() store.Capabilities { return store.Capabilities{OpenDir: f.OpenDir} }

func (f faulty) OpenDir(context.Context, string) (store.Entries, error) {
	return &faultyEntries{crowdEntries{f.n}, f.fault}, nil
}

type faultyEntries struct {
	crowdEntries
	fault *func()
}

func (f *faultyEntries) Next(into []fs.FileInfo) (int, error) {
	n, err := f.crowdEntries.Next(into)
	if err != nil {
		(*f.fault)()
	}
	return n, err
}
