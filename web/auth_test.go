package web_test

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/users"
	"github.com/haul-project/haul/web"
)

// hashOf returns a hash of a password that is fast to check.
func hashOf(t testing.TB, password string) users.Hash {
	t.Helper()
	b, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	h, err := users.ParseHash(string(b))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A club is a handler for users who have their own files.
type club struct {
	*web.Handler
	t      testing.TB
	events []users.Event
	mu     sync.Mutex
}

func newClub(t testing.TB, all ...users.User) *club {
	t.Helper()
	d, err := users.New(all...)
	if err != nil {
		t.Fatal(err)
	}
	return clubOf(t, d)
}

func clubOf(t testing.TB, d *users.Directory) *club {
	c := &club{t: t}
	stores := map[string]store.Tree{}
	for _, name := range d.Names() {
		stores[name] = mem(t, map[string]string{"whose": name})
	}
	c.Handler = &web.Handler{
		Users: d,
		Account: func(_ context.Context, v web.Visitor) (*web.Account, error) {
			if v.Login == nil {
				return nil, fs.ErrPermission
			}
			u := v.Login.User
			return &web.Account{User: u.Name, Store: stores[u.Name], Access: web.AccessOf(v.Login.Access), Rate: u.Limit}, nil
		},
		Audit: func(e users.Event) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.events = append(c.events, e)
		},
	}
	return c
}

// as sends a request with a name and a password, over TLS, from an address.
func (c *club) as(from, name, password, request string) answer {
	c.t.Helper()
	method, target, _ := strings.Cut(request, " ")
	r := httptest.NewRequestWithContext(c.t.Context(), method, "https://host"+target, strings.NewReader("content"))
	r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(from), 1234).String()
	if name != "" || password != "" {
		r.SetBasicAuth(name, password)
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return answer{w.Code, w.Header(), w.Body.String()}
}

const here = "192.0.2.1"

func TestUsers(t *testing.T) {
	c := newClub(t,
		users.User{Name: "alice", Password: hashOf(t, "wonderland")},
		users.User{Name: "bob", Password: hashOf(t, "builder"), Access: users.ReadOnly},
		users.User{Name: "scanner", Password: hashOf(t, "paper"), Access: users.UploadOnly},
		users.User{Name: "gone", Password: hashOf(t, "away"), Disabled: true},
		users.User{Name: "far", Password: hashOf(t, "off"), From: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}},
		users.User{Name: "both", Password: hashOf(t, "half"), Require: users.KeyAndPassword},
		users.User{Name: "keyed"},
	)
	c.Exempt = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	c.as(here, "alice", "wonderland", "GET /whose").want(t, 200, "alice")
	c.as(here, "bob", "builder", "GET /whose").want(t, 200, "bob")
	c.as(here, "alice", "wonderland", "PUT /new").want(t, 201, "*")
	c.as(here, "alice", "wonderland", "DELETE /new").want(t, 204, "")
	c.as(here, "bob", "builder", "PUT /new").want(t, 405, "*")
	c.as(here, "scanner", "paper", "PUT /new").want(t, 201, "*")
	c.as(here, "scanner", "paper", "GET /new").want(t, 403, "*")
	c.as("198.51.100.7", "far", "off", "GET /whose").want(t, 200, "far")

	for _, wrong := range [][2]string{
		{"alice", "wrong"}, {"alice", ""}, {"nobody", "wonderland"}, {"gone", "away"}, {"far", "off"}, {"both", "half"}, {"keyed", "x"},
		{"", "wonderland"}, {"alice", strings.Repeat("x", 2000)}, {"Alice", "wonderland"},
	} {
		a := c.as(here, wrong[0], wrong[1], "GET /whose")
		a.want(t, http.StatusUnauthorized, "log in with a name and a password\n")
		a.wantField(t, "Www-Authenticate", `Basic realm="haul", charset="UTF-8"`)
	}
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "POST", "PATCH"} {
		for _, target := range []string{"/whose", "/"} {
			c.as(here, "", "", method+" "+target).want(t, http.StatusUnauthorized, "*")
		}
	}
	// No client learns which files exist before it has logged in.
	c.as(here, "", "", "GET /missing").want(t, http.StatusUnauthorized, "*")
	c.as(here, "", "", "GET /../x").want(t, http.StatusUnauthorized, "*")
	if got := c.Counters(); got.Logins != 4 || got.Failures < 8 {
		t.Errorf("counted %+v", got)
	}
	for _, e := range c.events {
		if e.Outcome == users.Refused && e.Reason == "" || e.Method != "password" {
			t.Errorf("reported %+v", e)
		}
	}
}

// A file that may have been uploaded is served in a sandbox, as a whole and in parts.
func TestSandbox(t *testing.T) {
	files := map[string]string{"a.html": "<script>", "b.svg": "<svg>", "c.txt": "text", "d": "?", "e.pdf": "%PDF"}
	st := mem(t, files)
	c := newClub(t, users.User{Name: "alice", Password: hashOf(t, "wonderland"), Access: users.ReadOnly})
	c.Account = account(web.Account{Store: st})
	for name := range files {
		want := "sandbox allow-downloads"
		if name == "e.pdf" {
			want = ""
		}
		a := c.as(here, "alice", "wonderland", "GET /"+name)
		a.want(t, 200, "*")
		a.wantField(t, "Content-Security-Policy", want)
		for access, want := range map[web.Access]string{web.AccessRead: "", web.AccessCreate: want, web.AccessOverwrite: want, web.AccessFull: want} {
			h := &web.Handler{Store: st, Access: access}
			ask(t, h, "GET /"+name, "").wantField(t, "Content-Security-Policy", want)
			ask(t, h, "GET /"+name, "", "Range: bytes=0-0,2-3").wantField(t, "Content-Security-Policy", want)
		}
	}
}

// Passwords are neither requested nor accepted over connections where others could read them.
func TestUsersOverPlainHTTP(t *testing.T) {
	c := newClub(t, users.User{Name: "alice", Password: hashOf(t, "wonderland")})
	ask := func() answer {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/whose", nil)
		r.SetBasicAuth("alice", "wonderland")
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		return answer{w.Code, w.Header(), w.Body.String()}
	}
	a := ask()
	a.want(t, http.StatusForbidden, "passwords are taken over HTTPS only\n")
	a.wantField(t, "Www-Authenticate", "")
	c.PlainPasswords = true
	ask().want(t, 200, "alice")
}

// Without Account, each user would get all files.
func TestUsersTakeAnAccount(t *testing.T) {
	c := newClub(t, users.User{Name: "alice", Password: hashOf(t, "wonderland"), Root: "mine"})
	c.Account, c.Store = nil, mem(t, map[string]string{"f": "everybody's"})
	c.as(here, "alice", "wonderland", "GET /f").want(t, http.StatusInternalServerError, "*")
}

// A password that was right is remembered for a while, for its source address only. Many requests
// at once wait for a single check.
func TestPasswordsAreRemembered(t *testing.T) {
	c := newClub(t, users.User{Name: "alice", Password: hashOf(t, "wonderland")})
	var all sync.WaitGroup
	var denied atomic.Int64
	for range 32 {
		all.Go(func() {
			if a := c.as(here, "alice", "wonderland", "GET /whose"); a.status != 200 {
				denied.Add(1)
			}
		})
	}
	all.Wait()
	if n := denied.Load(); n > 0 {
		t.Errorf("%d of 32 requests at once were denied", n)
	}
	if got := c.Counters().Logins; got != 1 {
		t.Errorf("the password was checked %d times", got)
	}
	c.as("192.0.2.2", "alice", "wonderland", "GET /whose").want(t, 200, "alice")
	if got := c.Counters().Logins; got != 2 {
		t.Errorf("from another address the password was not checked")
	}
}

func TestPasswordsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClub(t, users.User{Name: "alice", Password: hashOf(t, "wonderland")})
		for _, step := range []struct {
			wait time.Duration
			want int64
		}{{0, 1}, {4 * time.Minute, 1}, {2 * time.Minute, 2}, {time.Minute, 2}} {
			time.Sleep(step.wait)
			c.as(here, "alice", "wonderland", "GET /whose").want(t, 200, "alice")
			if got := c.Counters().Logins; got != step.want {
				t.Errorf("after another %v, checked %d times, want %d", step.wait, got, step.want)
			}
		}
	})
}

// The current users file applies, even to remembered passwords.
func TestUsersChange(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, second := hashOf(t, "first"), hashOf(t, "second")
	write("user alice\n  password " + first.Encoded() + "\n")
	d, err := users.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	c := clubOf(t, d)
	c.Exempt = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	account, limit := c.Account, int64(0) // limit is the rate of the last request's account
	c.Account = func(ctx context.Context, v web.Visitor) (*web.Account, error) {
		a, err := account(ctx, v)
		if err == nil {
			limit = a.Rate
		}
		return a, err
	}
	steps := []struct {
		text                  string
		firstStatus, secondIs int
	}{
		{"user alice\n  password " + second.Encoded() + "\n", 401, 200},
		{"user alice\n  password " + second.Encoded() + "\n  disabled\n", 401, 401},
		{"user alice\n  password " + second.Encoded() + "\n  from 198.51.100.0/24\n", 401, 401},
		{"user alice\n  password " + second.Encoded() + "\n  require key+password\n", 401, 401},
		{"user bob\n  password " + second.Encoded() + "\n", 401, 401},
		{"user alice\n  password " + first.Encoded() + "\n", 200, 401},
		{"user alice\n  password " + first.Encoded() + "\n  access read-only\n", 200, 401},
	}
	use := func(text string) {
		t.Helper()
		write(text)
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			changed, err := d.Reload()
			if changed {
				break
			}
			if err != nil || time.Now().After(deadline) {
				t.Fatal("the change is not noticed", err)
			}
		}
	}
	for i, step := range steps {
		// Before each step, the server remembers both passwords.
		for _, known := range []struct{ password, hash string }{{"first", first.Encoded()}, {"second", second.Encoded()}} {
			use(fmt.Sprintf("# %d\nuser alice\n  password %s\n", i, known.hash))
			c.as(here, "alice", known.password, "GET /whose").want(t, 200, "alice")
		}
		use(step.text)
		c.as(here, "alice", "first", "GET /whose").want(t, step.firstStatus, "*")
		c.as(here, "alice", "second", "GET /whose").want(t, step.secondIs, "*")
		if t.Failed() {
			t.Fatalf("step %d", i)
		}
	}
	c.as(here, "alice", "first", "PUT /f").want(t, 405, "*")
	for _, want := range []int64{1000, 2000} {
		use(fmt.Sprintf("user alice\n  password %s\n  limit %d\n", first.Encoded(), want))
		if c.as(here, "alice", "first", "GET /whose").want(t, 200, "alice"); limit != want {
			t.Errorf("the limit is %d, want %d", limit, want)
		}
	}
}

// Wrong passwords block their source, even for right passwords, but no other source.
func TestGuessesAreCounted(t *testing.T) { synctest.Test(t, testGuesses) }

func testGuesses(t *testing.T) {
	c := newClub(t, users.User{Name: "alice", Password: hashOf(t, "wonderland")})
	c.as(here, "alice", "wonderland", "GET /whose").want(t, 200, "alice")
	var got []int
	var last answer
	for range 5 {
		last = c.as(here, "alice", "wrong", "GET /whose")
		got = append(got, last.status)
	}
	if want := []int{401, 401, 401, 429, 429}; !slices.Equal(got, want) {
		t.Errorf("five guesses: %v, want %v", got, want)
	}
	if after := last.header.Get("Retry-After"); after == "" || after == "0" || last.header.Get("Www-Authenticate") != "" {
		t.Errorf("the answer is %+v", last)
	}
	// While a source is blocked, the answer does not reveal that a password is right, even if it is
	// remembered.
	c.as(here, "alice", "wonderland", "GET /whose").want(t, http.StatusTooManyRequests, "*")
	c.as("198.51.100.9", "alice", "wonderland", "GET /whose").want(t, 200, "alice")
	// Requests without a password do not count as guesses.
	for range 100 {
		c.as("203.0.113.5", "", "", "GET /whose").want(t, http.StatusUnauthorized, "*")
	}
	c.as("203.0.113.5", "alice", "wonderland", "GET /whose").want(t, 200, "alice")
}

// Sending many requests at once gets hardly more passwords checked.
func TestGuessesAtOnce(t *testing.T) { synctest.Test(t, testGuessesAtOnce) }

func testGuessesAtOnce(t *testing.T) {
	c := newClub(t, users.User{Name: "alice", Password: hashOf(t, "wonderland")})
	var all sync.WaitGroup
	var checked, refused atomic.Int64
	for i := range 60 {
		all.Go(func() {
			switch c.as(here, "alice", fmt.Sprint("wrong", i), "GET /whose").status {
			case http.StatusUnauthorized:
				checked.Add(1)
			case http.StatusTooManyRequests:
				refused.Add(1)
			}
		})
	}
	all.Wait()
	if n, no := checked.Load(), refused.Load(); n < 3 || n > 4 || n+no != 60 {
		t.Errorf("of 60 guesses %d are checked, and %d refused", n, no)
	}
}

// A request whose client has left makes room for the next one, and is not counted.
func TestLoginOfGoneClient(t *testing.T) {
	c := newClub(t, users.User{Name: "alice", Password: hashOf(t, "wonderland")})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10 {
		r := httptest.NewRequestWithContext(ctx, "GET", "https://host/whose", nil)
		r.SetBasicAuth("alice", "wonderland")
		c.ServeHTTP(httptest.NewRecorder(), r)
	}
	if got := c.Counters().Failures; got != 0 {
		t.Errorf("%d failures", got)
	}
	c.as(here, "alice", "wonderland", "GET /whose").want(t, 200, "alice")
}

// For one address, the passwords of 64 requests are checked at a time; one more is answered 503,
// and other addresses do not have to wait.
func TestManyLoginsAtATime(t *testing.T) {
	const most = 64
	hash := hashOf(t, "wonderland")
	all := []users.User{{Name: "other", Password: hash}}
	for i := range most + 1 {
		all = append(all, users.User{Name: fmt.Sprint("u", i), Password: hash})
	}
	c := newClub(t, all...)
	checked, release := make(chan struct{}, most), make(chan struct{})
	c.Audit = func(e users.Event) {
		if e.User != "other" && e.User != "u64" {
			checked <- struct{}{}
			<-release
		}
	}
	var waiting sync.WaitGroup
	for i := range most {
		waiting.Go(func() { c.as(here, fmt.Sprint("u", i), "wonderland", "GET /whose").want(t, 200, "*") })
	}
	for range most {
		<-checked
	}
	more := c.as(here, "u64", "wonderland", "GET /whose")
	more.want(t, http.StatusServiceUnavailable, "*")
	if more.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	c.as("198.51.100.9", "other", "wonderland", "GET /whose").want(t, 200, "other")
	close(release)
	waiting.Wait()
}
