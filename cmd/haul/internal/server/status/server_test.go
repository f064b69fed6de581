package status

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/internal/leak"
	"github.com/haul-project/haul/users"
)

func TestMain(m *testing.M) { leak.Main(m, "internal/status.") }

// patience is how long a test waits for an event that should be immediate.
const patience = 20 * time.Second

// patient limits cut off no client during a test.
var patient = limits{
	header: time.Hour, answer: time.Hour, event: time.Hour, idle: time.Hour, grace: time.Millisecond, profile: time.Second,
	headerBytes: usual.headerBytes, connections: usual.connections, watchers: 2,
}

// start serves a board until the test ends, and returns its URL.
func start(t *testing.T, l limits, b *Board, c Config) string {
	t.Helper()
	socket, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.Log = slog.New(slog.DiscardHandler)
	s := l.serve(t.Context(), socket, b, c)
	t.Cleanup(func() {
		s.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return "http://" + s.Addr().String()
}

// ask sends a request, and returns the answer with its body.
func ask(t *testing.T, method, url string, change func(*http.Request)) (*http.Response, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(q)
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a, string(body)
}

func TestRoutes(t *testing.T) {
	b, _ := newBoard()
	url := start(t, patient, b, Config{})
	for _, c := range []struct {
		method, target string
		status         int
		body           string // a part of it
	}{
		{"GET", "/", 200, "Nothing is under way."},
		{"HEAD", "/", 200, ""},
		{"HEAD", "/events", 200, ""},
		{"GET", "/api/v1/info", 200, `"version":"v1.2.3"`},
		{"GET", "/api/v1/transfers", 200, `"total":0,"transfers":[]`},
		{"GET", "/api/v1/transfers?limit=-1", 400, "limit"},
		{"GET", "/api/v1/series", 200, `"bytes":[]`},
		{"GET", "/api/v1/failures", 200, `"failures":[]`},
		{"GET", "/api/v1/machines", 200, `"machines":[]`},
		{"GET", "/metrics", 200, "haul_transfers_live"},
		{"GET", "/api/v1/", 404, ""},
		{"GET", "/debug/pprof/", 404, ""},
		{"GET", "/../../etc/passwd", 404, ""},
		{"POST", "/", 405, ""}, {"PUT", "/api/v1/info", 405, ""}, {"DELETE", "/events", 405, ""}, {"OPTIONS", "/", 405, ""}, {"PATCH", "/metrics", 405, ""},
	} {
		a, body := ask(t, c.method, url+c.target, nil)
		if a.StatusCode != c.status || !strings.Contains(body, c.body) {
			t.Errorf("%s %s: status %d, %q; want %d with %q", c.method, c.target, a.StatusCode, body, c.status, c.body)
		}
		h := a.Header
		if h.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'") || h.Get("Access-Control-Allow-Origin") != "" ||
			h.Get("Cache-Control") != "no-store" || h.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s %s: the header is %v", c.method, c.target, h)
		}
	}
}

// Profiles are available on request, and none lasts forever.
func TestProfiles(t *testing.T) {
	b, _ := newBoard()
	url := start(t, patient, b, Config{Profiles: true})
	for target, status := range map[string]int{"": 200, "goroutine?debug=1": 200, "heap": 200, "profile?seconds=2": 400, "trace?seconds=1e9": 400} {
		if a, body := ask(t, "GET", url+"/debug/pprof/"+target, nil); a.StatusCode != status {
			t.Errorf("%s: status %d, %.200q", target, a.StatusCode, body)
		}
	}
}

// A stranger's page with a name for this machine's address gets nothing.
func TestHosts(t *testing.T) {
	b, _ := newBoard()
	url := start(t, patient, b, Config{Hosts: []string{"admin.example"}})
	for host, status := range map[string]int{
		"127.0.0.1:9070": 200, "localhost": 200, "LOCALHOST:9070": 200, "localhost.": 200, "[::1]:9070": 200, "192.0.2.1": 200, "Admin.Example:9070": 200,
		"evil.example": 403, "evil.example:9070": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403, "": 403, "admin.example.evil.example": 403,
	} {
		for _, target := range []string{"/", "/api/v1/info", "/metrics", "/nowhere"} {
			a, body := ask(t, "GET", url+target, func(q *http.Request) {
				if q.Host = host; host == "" {
					q.Host = "."
				}
			})
			if a.StatusCode != status && (status == 403 || target != "/nowhere") {
				t.Errorf("%s of %q: status %d, want %d", target, host, a.StatusCode, status)
			}
			if status == 403 && strings.Contains(body, "v1.2.3") {
				t.Errorf("%s of %q shows %q", target, host, body)
			}
		}
	}
}

func TestLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true, "localhost:1": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "192.0.2.1:1": false, "host:1": false, "127.0.0.1": false, "localhost.example:1": false, "": false,
	} {
		if Loopback(addr) != want {
			t.Errorf("%q: want %v", addr, want)
		}
	}
}

// rightPassword returns the hash of the password "right".
func rightPassword(t *testing.T) users.Hash {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("right"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	password, err := users.ParseHash(string(hash))
	if err != nil {
		t.Fatal(err)
	}
	return password
}

// If a login is required, nobody gets anything without one, whatever the host. After too many wrong
// passwords there are no more answers.
func TestLogin(t *testing.T) {
	d, err := users.New(users.User{Name: "alice", Password: rightPassword(t)})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := newBoard()
	url := start(t, patient, b, Config{Login: NewLogin(d, slog.New(slog.DiscardHandler))})
	as := func(name, password string) func(*http.Request) {
		return func(q *http.Request) {
			q.Host = "status.example"
			if name != "" {
				q.SetBasicAuth(name, password)
			}
		}
	}
	for _, target := range []string{"/", "/events", "/api/v1/transfers", "/metrics", "/nowhere"} {
		if a, body := ask(t, "GET", url+target, as("", "")); a.StatusCode != 401 || a.Header.Get("WWW-Authenticate") == "" || strings.Contains(body, "haul_") {
			t.Errorf("%s: status %d without a login", target, a.StatusCode)
		}
	}
	if a, _ := ask(t, "GET", url+"/api/v1/info", as("alice", "right")); a.StatusCode != 200 {
		t.Errorf("status %d with the right password", a.StatusCode)
	}
	last := 0
	for range 10 {
		a, _ := ask(t, "GET", url+"/", as("alice", "wrong"))
		if last = a.StatusCode; last != 401 {
			break
		}
	}
	if last != 429 {
		t.Errorf("status %d after many wrong passwords", last)
	}
	if a, _ := ask(t, "GET", url+"/", as("alice", "right")); a.StatusCode != 429 || a.Header.Get("Retry-After") == "" {
		t.Errorf("status %d with the right password after many wrong ones", a.StatusCode)
	}
}

// lateListener returns its last connections when it is closed, as a listener of package tcp does
// with those accepted by then.
type lateListener struct {
	net.Listener
	last chan net.Conn
}

func (l *lateListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		select {
		case c := <-l.last:
			return c, nil
		default:
		}
	}
	return c, err
}

// Requests that arrive while the server shuts down are answered, even if their password has to be
// checked.
func TestLoginAtEnd(t *testing.T) {
	const clients = 4
	listen := func() net.Listener {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	d, err := users.New(users.User{Name: "alice", Password: rightPassword(t)})
	if err != nil {
		t.Fatal(err)
	}
	other := listen()
	defer other.Close()
	late := &lateListener{listen(), make(chan net.Conn, clients)}
	var conns []net.Conn
	q, err := http.NewRequestWithContext(t.Context(), "GET", "http://haul/api/v1/info", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.SetBasicAuth("alice", "right")
	for range clients {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", other.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		accepted, err := other.Accept()
		if err == nil {
			err = q.Write(c)
		}
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		late.last <- accepted
	}
	b, _ := newBoard()
	l := patient
	l.grace = patience
	l.serve(t.Context(), late, b, Config{Login: NewLogin(d, slog.New(slog.DiscardHandler)), Log: slog.New(slog.DiscardHandler)}).Close()
	for _, c := range conns {
		a, err := http.ReadResponse(bufio.NewReader(c), q)
		if err != nil {
			t.Fatal(err)
		}
		if a.Body.Close(); a.StatusCode != 200 {
			t.Errorf("status %d", a.StatusCode)
		}
	}
}

// hostile are names that could be taken for more than text.
var hostile = []string{
	"<img src=x onerror=alert(1)>", `"onclick="alert(1)`, "</title><script>alert(1)</script>", "</script>", "{{.}}", "'; alert(1); '", "new\nline\r\n\r\ndata: x",
	"\xff\xfe", "\u202egpj.exe", strings.Repeat("<b>", 80), "\u2028",
}

// Names from strangers are shown as text, wherever they appear.
func TestHostileNames(t *testing.T) {
	b, r := newBoard()
	for _, name := range hostile {
		r.Begin(meter.Info{Protocol: meter.TFTP, Name: name, User: name})
		r.Begin(meter.Info{Protocol: meter.TFTP, Name: name, User: name}).End(meter.End{Result: meter.Failed, Err: fmt.Errorf("open %s", name)})
	}
	url := start(t, patient, b, Config{})
	_, page := ask(t, "GET", url+"/", nil)
	for _, bad := range []string{"<img", `"onclick`, "<script>alert", "<b>", "{{"} {
		if strings.Contains(strings.ReplaceAll(page, "{{.}}", ""), bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if strings.Count(page, "<script") != 1 || !strings.Contains(page, "&lt;img src=x onerror=alert(1)&gt;") {
		t.Error("the name is not there as text")
	}
	_, body := ask(t, "GET", url+"/api/v1/transfers", nil)
	var got Transfers
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	for _, x := range got.Transfers {
		if name := string(x.FileBytes); name == "" && !slices.Contains(hostile, x.File) || name != "" && name != "\xff\xfe" {
			t.Errorf("a name became %q, %q", x.File, name)
		}
	}
	if len(got.Transfers) != len(hostile) {
		t.Errorf("%d transfers", len(got.Transfers))
	}
	events := watch(t, url)
	if e := events(); strings.Contains(e, "<img") || len(e) == 0 {
		t.Errorf("an event has %q", e)
	}
}

// watch returns a function that returns the next event.
func watch(t *testing.T, url string) func() string {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), "GET", url+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Body.Close() })
	if a.StatusCode != 200 || a.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("status %d, %v", a.StatusCode, a.Header)
	}
	in := bufio.NewReader(a.Body)
	return func() string {
		line, err := in.ReadString('\n')
		if err != nil {
			return ""
		}
		if empty, _ := in.ReadString('\n'); empty != "\n" {
			t.Errorf("behind an event is %q", empty)
		}
		return strings.TrimPrefix(line, "data: ")
	}
}

// The first event has everything, the next one the changes. When the server shuts down, the events
// stop.
func TestEvents(t *testing.T) {
	b, r := newBoard()
	b.Machines = nil
	url := start(t, patient, b, Config{})
	next := watch(t, url)
	var parts map[string]json.RawMessage
	read := func() {
		t.Helper()
		parts = nil
		if err := json.Unmarshal([]byte(next()), &parts); err != nil {
			t.Fatal(err)
		}
	}
	read()
	_, page := ask(t, "GET", url+"/", nil)
	if server := string(parts["server"]); len(server) < 3 || !strings.Contains(page, "data-server="+server) {
		t.Errorf("the page is not that of server %s", server)
	}
	for name := range strings.FieldsSeq("state up protocols transfers chart hour failures") {
		if parts[name] == nil {
			t.Errorf("the first event has no %s", name)
		}
	}
	read()
	if parts["up"] == nil || parts["server"] != nil || parts["failures"] != nil || parts["transfers"] != nil {
		t.Errorf("the second event has %v", parts)
	}
	x := r.Begin(meter.Info{Protocol: meter.TFTP, Name: "kernel", Size: 200})
	x.Reached(50)
	for parts["transfers"] == nil {
		read()
	}
	if got := string(parts["transfers"]); !strings.Contains(got, `"kernel"`) || !strings.Contains(got, `["50 B of 200 B",25]`) {
		t.Errorf("the event has %s", got)
	}
}

// Watchers beyond the limit are refused, and there is room again when one leaves.
func TestWatchers(t *testing.T) {
	b, _ := newBoard()
	url := start(t, patient, b, Config{})
	watch(t, url)()
	watch(t, url)()
	a, _ := ask(t, "GET", url+"/events", nil)
	if a.StatusCode != 503 || a.Header.Get("Retry-After") == "" {
		t.Errorf("status %d for one too many", a.StatusCode)
	}
}

// A watcher that does not read is cut off.
func TestSlowWatcher(t *testing.T) {
	l := patient
	l.event = time.Millisecond
	b, r := newBoard()
	for range maxRows {
		r.Begin(meter.Info{Protocol: meter.TFTP, Name: strings.Repeat("n", maxShownName)})
	}
	socket, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := l.serve(t.Context(), &smallBuffers{socket}, b, Config{Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(s.Close)
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.(*net.TCPConn).SetReadBuffer(1); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	open := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.open
	}
	for end := time.Now().Add(patience); open() != 0 || s.Watchers() != 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the server still waits for its watcher")
		}
	}
}

// smallBuffers is a listener whose connections buffer little unread data.
type smallBuffers struct{ net.Listener }

func (l *smallBuffers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(1)
	}
	return c, err
}

// If there are too many connections, the one that has been idle the longest is closed; if none is
// idle, the new one.
func TestConnections(t *testing.T) {
	s := &Server{limits: limits{connections: 3}}
	var conns []net.Conn
	add := func(then ...http.ConnState) {
		here, there := net.Pipe()
		t.Cleanup(func() { there.Close() })
		conns = append(conns, here)
		for _, state := range append([]http.ConnState{http.StateNew}, then...) {
			s.count(here, state)
		}
	}
	want := func(what string, closed ...int) {
		t.Helper()
		var got []int
		for i, c := range conns {
			if c.SetDeadline(time.Time{}) != nil { // as on a closed pipe
				got = append(got, i)
			}
		}
		if !slices.Equal(got, closed) {
			t.Errorf("%s: connections %v are closed, not %v", what, got, closed)
		}
	}
	add(http.StateActive, http.StateIdle)
	add(http.StateActive, http.StateIdle)
	add(http.StateActive, http.StateIdle)
	s.count(conns[0], http.StateActive)
	s.count(conns[0], http.StateIdle)
	want("as many as may be")
	add(http.StateActive)
	want("one more", 1)
	s.count(conns[1], http.StateClosed)
	s.count(conns[0], http.StateActive)
	s.count(conns[2], http.StateActive)
	add()
	want("one more than are busy", 1, 4)
	s.count(conns[4], http.StateClosed)
	s.count(conns[3], http.StateClosed)
	add(http.StateActive)
	want("as many as may be again", 1, 4)
}

// Clients that keep connections open lock nobody out.
func TestIdleConnections(t *testing.T) {
	l := patient
	l.connections = 2
	b, _ := newBoard()
	addr := strings.TrimPrefix(start(t, l, b, Config{}), "http://")
	for range 8 {
		for end := time.Now().Add(patience); ; { // until the server has noticed that the previous connection is idle
			c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			_ = c.SetDeadline(time.Now().Add(patience))
			_, _ = io.WriteString(c, "GET /api/v1/info HTTP/1.1\r\nHost: localhost\r\n\r\n")
			if line, err := bufio.NewReader(c).ReadString('\n'); strings.HasPrefix(line, "HTTP/1.1 200 ") {
				break
			} else if time.Now().After(end) {
				t.Fatalf("a new connection was answered by %q, %v", line, err)
			}
		}
	}
}

// The page of a busy server shows the fastest transfers, and their total number.
func TestBusyPage(t *testing.T) {
	b, r := newBoard()
	for i := range 10_000 {
		r.Begin(meter.Info{Protocol: meter.TFTP, Peer: peer, Name: fmt.Sprint("images/disk-", i), Size: 1 << 30})
	}
	v := b.snapshot(time.Now()).page(b)
	if len(v.Transfers.Rows) != maxRows || !strings.HasPrefix(v.Transfers.Note, "10000 transfers are under way; these are the 200 fastest.") {
		t.Errorf("%d rows, %q", len(v.Transfers.Rows), v.Transfers.Note)
	}
	if n := len(v.sections.event(sections{})); n > 64<<10 {
		t.Errorf("an event has %d bytes", n)
	}
}

func BenchmarkSnapshot(b *testing.B) {
	board, r := newBoard()
	for i := range 10_000 {
		r.Begin(meter.Info{Protocol: meter.TFTP, Peer: peer, Name: fmt.Sprint("images/disk-", i), Size: 1 << 30})
	}
	board.init()
	for b.Loop() {
		board.look(time.Now()).page(board)
	}
}

func BenchmarkSample(b *testing.B) {
	board, r := newBoard()
	for i := range 10_000 {
		r.Begin(meter.Info{Protocol: meter.TFTP, Peer: peer, Name: fmt.Sprint("images/disk-", i), Size: 1 << 30})
	}
	board.init()
	for b.Loop() {
		board.sample(time.Now())
	}
}
