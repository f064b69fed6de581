package serve

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/serve/servetest"
	"github.com/haul-project/haul/tcp"
)

// At the end, a connection that is kept open gets an answer to its next request, which
// closes it: the request may have been on its way when the end began. Go's own client would
// hide a failure by sending it again.
func TestServeHTTPLastCall(t *testing.T) {
	t.Parallel() // it waits most of the time
	p := &httpPort{lastCall: servetest.Patience}
	p.open(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "image")
	}), slog.New(slog.DiscardHandler))
	socket, err := tcp.Listen(t.Context(), "127.0.0.1:0", tcp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.sockets = []*tcp.Socket{socket}
	s := &httpService{cfg: &Config{Grace: servetest.Patience}}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	ended := make(chan error, 1)
	go func() { ended <- s.servePort(ctx, ctx, p) }()

	c, err := net.Dial("tcp", socket.Addr().String())
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
