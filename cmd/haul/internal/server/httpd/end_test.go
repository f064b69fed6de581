package httpd

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/internal/certs"
	"github.com/haul-project/haul/tcp"
)

// serveUntil serves HTTP, or HTTPS if the port has TLS, until end is called. The error is then sent
// to ended.
func serveUntil(t *testing.T, p *port) (addr string, end func(), ended <-chan error) {
	t.Helper()
	p.open(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "image")
	}), io.Discard)
	socket, err := tcp.Listen(t.Context(), "127.0.0.1:0", tcp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.sockets = []*tcp.Socket{socket}
	s := &Service{cfg: &settings.Config{Grace: servetest.Patience}}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	err1 := make(chan error, 1)
	go func() { err1 <- s.servePort(ctx, ctx, p) }()
	return socket.Addr().String(), cancel, err1
}

// An HTTP/2 connection gets an answer to its first request even after the shutdown has begun,
// because the request may have been on its way.
func TestServeHTTP2FirstRequest(t *testing.T) {
	t.Parallel() // it waits most of the time
	cert, err := certs.SelfSigned("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	p := &port{idleGrace: servetest.Patience}
	p.accept.TLS, p.accept.SplitALPN = &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}, "h2"
	addr, end, ended := serveUntil(t, p)
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(servetest.Patience))
	framer := http2.NewFramer(c, c)
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	if _, err := framer.ReadFrame(); err != nil { // the server's settings: it waits for a request
		t.Fatal(err)
	}
	end()
	servetest.AwaitRefused(t, c.RemoteAddr().String())
	time.Sleep(50 * time.Millisecond) // a server that did not wait would close the connection meanwhile
	var head bytes.Buffer
	encoder := hpack.NewEncoder(&head)
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", addr}, {":path", "/"}} {
		if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := framer.ReadFrame()
		if err != nil {
			t.Fatal("no answer:", err)
		}
		if data, ok := f.(*http2.DataFrame); ok && string(data.Data()) == "image" {
			break
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// At the shutdown, a kept connection gets an answer to its next request, which may have been on its
// way when the shutdown began. The answer closes the connection. Go's own client would hide a
// failure by repeating the request.
func TestServeHTTPLastCall(t *testing.T) {
	t.Parallel() // it waits most of the time
	addr, end, ended := serveUntil(t, &port{idleGrace: servetest.Patience})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(servetest.Patience))
	r := bufio.NewReader(c)
	ask := func() (last bool) {
		t.Helper()
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "image" {
			t.Fatalf("%q, %v", body, err)
		}
		return resp.Close
	}
	if ask() {
		t.Fatal("the first answer is the last")
	}
	end()
	servetest.AwaitRefused(t, c.RemoteAddr().String())
	if !ask() {
		t.Error("the answer at the end is not the last")
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("behind the last answer: %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A request whose header takes longer than net/http's five seconds is answered, even if the
// shutdown began before the header arrived, and idle connections have been closed.
func TestServeHTTPSlowHead(t *testing.T) {
	t.Parallel() // it waits most of the time
	p := &port{idleGrace: time.Millisecond}
	p.http1.ReadHeaderTimeout = servetest.Patience
	addr, end, ended := serveUntil(t, p)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(servetest.Patience))
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\n"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(6100 * time.Millisecond) // net/http counts in whole seconds
	end()
	servetest.AwaitRefused(t, c.RemoteAddr().String())
	time.Sleep(50 * time.Millisecond) // a server that did not wait would close the connection meanwhile
	if _, err := io.WriteString(c, "Host: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal("no answer:", err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "image" || !resp.Close {
		t.Errorf("%q, %v; the last: %v", body, err, resp.Close)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
