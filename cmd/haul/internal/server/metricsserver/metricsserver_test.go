package metricsserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
)

// metricsPatience is how long a test waits for an event that should be immediate. Only a failing
// test waits that long.
const metricsPatience = 20 * time.Second

// patientMetrics limits cut off no client during a test.
var patientMetrics = metricsLimits{
	header:      time.Hour,
	answer:      time.Hour,
	grace:       metricsPatience,
	headerBytes: metricsDefaults.headerBytes,
	connections: metricsDefaults.connections,
}

// startMetrics serves metrics on a free port until the test ends, and fails
// the test if that leaves a goroutine behind.
func startMetrics(ctx context.Context, t *testing.T, limits metricsLimits, h http.Handler) *Server {
	t.Helper()
	socket, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := limits.serveOn(ctx, socket, h, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		s.Close()
		for deadline := time.Now().Add(metricsPatience); ; runtime.Gosched() {
			stacks := make([]byte, 1<<20)
			text := string(stacks[:runtime.Stack(stacks, true)])
			if !strings.Contains(text, "net/http.(*conn).serve") && !strings.Contains(text, "metricsserver.(*Server)") {
				return
			}
			if time.Now().After(deadline) {
				t.Errorf("goroutines left behind:\n%s", text)
				return
			}
		}
	})
	return s
}

// line is a handler that returns metrics of one line.
var line = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "haul_up 1") })

// dial connects to the server. Reads and writes fail after servetest.Patience.
func (s *Server) dial(t *testing.T) net.Conn {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(metricsPatience))
	return c
}

// ask sends raw bytes and returns everything received until the server closes.
func (s *Server) ask(t *testing.T, raw string) string {
	t.Helper()
	c := s.dial(t)
	// The server may answer and close before it has read everything.
	_, _ = io.WriteString(c, raw)
	return untilClosed(t, c)
}

// untilClosed reads until the other side closes, properly or not.
func untilClosed(t *testing.T, c net.Conn) string {
	t.Helper()
	b, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the server leaves the connection open, after %q", b)
	}
	return string(b)
}

// get sends a request with the method and target, and returns the answer.
func (s *Server) get(t *testing.T, method, target string) (*http.Response, string) {
	t.Helper()
	raw := s.ask(t, method+" "+target+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(strings.NewReader(raw)), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%s %s: %v in %q", method, target, err, raw)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	return answer, string(body)
}

func TestMetricsRoutes(t *testing.T) {
	s := startMetrics(t.Context(), t, patientMetrics, line)
	for _, c := range []struct {
		method, target string
		status         int    // 0 stands for any status but 200
		body           string // a part of it
	}{
		{"GET", "/metrics", 200, "haul_up 1"},
		{"GET", "/metrics?name[]=x;%zz", 200, "haul_up 1"},
		{"HEAD", "/metrics", 200, ""},
		{"POST", "/metrics", 405, ""},
		{"PUT", "/metrics", 405, ""},
		{"DELETE", "/healthz", 405, ""},
		{"OPTIONS", "*", 0, ""},
		{"TRACE", "/", 405, ""},
		{"CONNECT", "example.com:443", 0, ""},
		{"GET", "/", 200, "/metrics"},
		{"HEAD", "/", 200, ""},
		{"GET", "/healthz", 200, "ok\n"},
		{"HEAD", "/healthz", 200, ""},
		{"GET", "/metrics/", 404, ""},
		{"GET", "/metrics%00", 404, ""},
		{"GET", "/../../etc/passwd", 0, ""},
		{"GET", "/debug/vars", 404, ""},
		{"GET", "/debug/pprof/", 404, ""},
		{"GET", "http://localhost/healthz", 200, "ok\n"},
	} {
		answer, body := s.get(t, c.method, c.target)
		if c.status == 0 && answer.StatusCode != 200 {
			c.status = answer.StatusCode
		}
		if answer.StatusCode != c.status || !strings.Contains(body, c.body) {
			t.Errorf("%s %s: status %d, %q; want %d with %q", c.method, c.target, answer.StatusCode, body, c.status, c.body)
		}
		if c.method == "HEAD" && body != "" {
			t.Errorf("%s %s: has the body %q", c.method, c.target, body)
		}
		if allow := answer.Header.Get("Allow"); c.status == 405 && allow != "GET, HEAD" {
			t.Errorf("%s %s: allows %q", c.method, c.target, allow)
		}
		if !answer.Close {
			t.Errorf("%s %s: the connection is kept", c.method, c.target)
		}
	}
}

// A scrape of real metrics can be parsed.
func TestMetricsScrape(t *testing.T) {
	m := meter.New(meter.Config{Version: "1.0", Protocols: []meter.Protocol{meter.TFTP}})
	m.Begin(meter.Info{Protocol: meter.TFTP}).End(meter.End{Result: meter.Done, Bytes: 77})
	s := startMetrics(t.Context(), t, patientMetrics, m.Handler())
	_, body := s.get(t, "GET", "/metrics")
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, metric := range families["haul_bytes_total"].GetMetric() {
		sum += metric.GetCounter().GetValue()
	}
	if sum != 77 {
		t.Errorf("%v bytes, want 77", sum)
	}
}

// While transfers have their grace period, the health page reports that and metrics continue.
func TestHealthWhileDraining(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := startMetrics(ctx, t, patientMetrics, line)
	if answer, body := s.get(t, "GET", "/healthz"); answer.StatusCode != 200 || body != "ok\n" {
		t.Errorf("before: status %d, %q", answer.StatusCode, body)
	}
	cancel()
	if answer, body := s.get(t, "GET", "/healthz"); answer.StatusCode != 503 || body != "draining\n" {
		t.Errorf("draining: status %d, %q", answer.StatusCode, body)
	}
	if answer, body := s.get(t, "GET", "/metrics"); answer.StatusCode != 200 || body != "haul_up 1\n" {
		t.Errorf("metrics while draining: status %d, %q", answer.StatusCode, body)
	}
}

// Clients that do not speak HTTP get no metrics, and the next client is served.
func TestMetricsHostileInput(t *testing.T) {
	s := startMetrics(t.Context(), t, patientMetrics, line)
	for name, raw := range map[string]string{
		"noise":               "\x00\xff\xfe\r\n\r\n",
		"TLS":                 "\x16\x03\x01\x00\xf4\x01\x00\x00\xf0\x03\x03\r\n\r\n",
		"HTTP/0.9":            "GET /metrics\r\n\r\n",
		"HTTP/2":              "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"HTTP/9.9":            "GET /metrics HTTP/9.9\r\nHost: localhost\r\n\r\n",
		"no host":             "GET /metrics HTTP/1.1\r\n\r\n",
		"two hosts":           "GET /metrics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"long header":         "GET /metrics HTTP/1.1\r\nHost: localhost\r\nA: " + strings.Repeat("b", 1<<20) + "\r\n\r\n",
		"many headers":        "GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("A: b\r\n", 1<<16) + "\r\n",
		"long target":         "GET /" + strings.Repeat("m", 1<<20) + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"header without name": "GET /metrics HTTP/1.1\r\nHost: localhost\r\n: y\r\n\r\n",
		"negative length":     "GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
		"two lengths":         "GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"unknown coding":      "GET /metrics HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: evil\r\n\r\n",
	} {
		if got := s.ask(t, raw); strings.Contains(got, "haul_up") {
			t.Errorf("%s: answered by %q", name, got)
		}
		if _, body := s.get(t, "GET", "/metrics"); body != "haul_up 1\n" {
			t.Errorf("after %s: %q", name, body)
		}
	}
	// Each connection serves one request: a second one after the first is not answered.
	const one = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
	if got := s.ask(t, one+one); strings.Count(got, "haul_up") != 1 {
		t.Errorf("two requests in one: %q", got)
	}
}

// A request that is never completed is cut off.
func TestMetricsSlowRequest(t *testing.T) {
	limits := patientMetrics
	limits.header = 50 * time.Millisecond
	s := startMetrics(t.Context(), t, limits, line)
	for name, raw := range map[string]string{
		"nothing":       "",
		"half a method": "GE",
		"half a header": "GET /metrics HTTP/1.1\r\nHost: localhost\r\nA: ",
		"half a body":   "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nbody",
		"half a chunk":  "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\nx",
	} {
		if got := s.ask(t, raw); strings.Contains(got, "haul_up") {
			t.Errorf("%s: answered by %q", name, got)
		}
	}
}

// A client that does not read its answer is cut off.
func TestMetricsSlowReader(t *testing.T) {
	limits := patientMetrics
	limits.answer = 50 * time.Millisecond
	failed := make(chan error, 1)
	s := startMetrics(t.Context(), t, limits, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for chunk := make([]byte, 1<<16); ; {
			if _, err := w.Write(chunk); err != nil {
				failed <- err
				return
			}
		}
	}))
	if _, err := io.WriteString(s.dial(t), "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-failed:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(metricsPatience):
		t.Error("the server still waits for its client")
	}
}

// Connections beyond the limit are closed. There is room again when one of the open connections is
// closed.
func TestMetricsConnections(t *testing.T) {
	limits := patientMetrics
	limits.connections = 2
	limits.grace = time.Millisecond // for connections that are open when the test ends
	s := startMetrics(t.Context(), t, limits, line)
	first := s.dial(t)
	s.dial(t)
	if got := untilClosed(t, s.dial(t)); got != "" {
		t.Errorf("one too many was answered by %q", got)
	}
	first.Close()
	for deadline := time.Now().Add(metricsPatience); ; {
		if strings.Contains(s.ask(t, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"), "haul_up") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no room, though a connection has gone")
		}
	}
}

// Close ends answers under way and the port, and may be called again.
func TestMetricsClose(t *testing.T) {
	limits := patientMetrics
	limits.grace = time.Millisecond
	begun := make(chan struct{})
	s := startMetrics(t.Context(), t, limits, http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		close(begun)
		<-q.Context().Done()
	}))
	idle, busy := s.dial(t), s.dial(t)
	for _, c := range []struct {
		conn net.Conn
		raw  string
	}{{idle, "GET /metr"}, {busy, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"}} {
		if _, err := io.WriteString(c.conn, c.raw); err != nil {
			t.Fatal(err)
		}
	}
	<-begun
	s.Close()
	untilClosed(t, idle)
	untilClosed(t, busy)
	s.Close()
	var d net.Dialer
	if c, err := d.DialContext(t.Context(), "tcp", s.Addr().String()); err == nil {
		c.Close()
		t.Error("the port is still open")
	}
}

// A failing socket is logged.
func TestMetricsSocketFails(t *testing.T) {
	var out servetest.Buffer
	socket, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := patientMetrics.serveOn(t.Context(), socket, line, slog.New(slog.NewTextHandler(&out, nil)))
	s.socket.Close()
	<-s.ended
	s.Close()
	if got := out.String(); !strings.Contains(got, "metrics ended") || !strings.Contains(got, s.Addr().String()) {
		t.Errorf("logged %q", got)
	}
}

// On a socket that only this machine can reach, metrics are shown only by an address or localhost. On
// others, any name will do for a program, and no name for a page.
func TestCheckHosts(t *testing.T) {
	for _, c := range []struct {
		loopback     bool
		host, origin string
		want         int
	}{
		{true, "localhost:1", "", http.StatusOK}, {true, "127.0.0.1:1", "", http.StatusOK}, {true, "evil.example", "", http.StatusForbidden},
		{false, "metrics.example:1", "", http.StatusOK}, {false, "evil.example", "http://evil.example", http.StatusForbidden},
		{false, "192.0.2.1:1", "http://192.0.2.1:1", http.StatusOK},
	} {
		r := httptest.NewRequest("GET", "/metrics", nil)
		if r.Host = c.host; c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		w := httptest.NewRecorder()
		checkHosts(c.loopback, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%+v: %d", c, w.Code)
		}
	}
}
