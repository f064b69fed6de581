package web_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/pipelisten"
	"github.com/haul-project/haul/internal/repeat"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/web"
)

// stall is Handler.Stall in tests with virtual time.
const stall = time.Minute

// A pipedServer connects clients to a server by pipes.
type pipedServer struct {
	t        *testing.T
	listener *pipelisten.Listener
	server   *http.Server
}

// startPiped serves inside a synctest bubble.
func startPiped(t *testing.T, h http.Handler) *pipedServer {
	t.Helper()
	repeat.OnFailure(t)
	w := &pipedServer{t: t, listener: pipelisten.New(), server: &http.Server{Handler: h, Protocols: new(http.Protocols)}}
	w.server.Protocols.SetHTTP1(true)
	w.server.Protocols.SetUnencryptedHTTP2(true)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = w.server.Serve(w.listener) // until it is closed
	}()
	t.Cleanup(func() {
		_ = w.server.Close()
		<-served
	})
	return w
}

// client returns a client that speaks one of the two protocols.
func (w *pipedServer) client(http2 bool) *http.Client {
	transport := &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return w.listener.Dial(w.t), nil },
		Protocols:   new(http.Protocols),
	}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetUnencryptedHTTP2(http2)
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// silentRequests contains a request for each kind of answer, as "METHOD path" with the header
// fields.
var silentRequests = []string{
	"GET /f", "GET /none", "GET /", "GET /?json", "GET /sub", "HEAD /f", "OPTIONS /f", "POST /f", "DELETE /none", "GET /%2F",
	"GET /f\r\nRange: bytes=0-1,5-6", "GET /f\r\nRange: bytes=90000-", "GET /f\r\nIf-None-Match: *",
	"GET /f\r\nIf-Match: \"x\"", "GET /large", "GET /large\r\nRange: bytes=0-40000,50000-90000",
}

func silentHandler(t *testing.T) *web.Handler {
	st := mem(t, map[string]string{"f": string(pattern(16 << 10)), "large": string(pattern(1 << 20)), "sub/g": "x"})
	return &web.Handler{Store: st, Access: web.AccessFull, Listing: true, Stall: stall}
}

// A client that keeps sending requests, but reads no answers, is disconnected, even if the answers
// are short.
func TestSilentClient(t *testing.T) {
	const continues = "PUT /new\r\nExpect: 100-continue\r\nContent-Length: 5"
	const unread = "PUT /sub/\r\nContent-Length: 5" // net/http waits for the content before it answers
	for _, request := range append(silentRequests, continues, unread) {
		synctest.Test(t, func(t *testing.T) {
			method, rest, _ := strings.Cut(request, " ")
			target, fields, more := strings.Cut(rest, "\r\n")
			text := method + " " + target + " HTTP/1.1\r\nHost: x\r\n"
			if more {
				text += fields + "\r\n"
			}
			c, began := startPiped(t, silentHandler(t)).listener.Dial(t), time.Now()
			var err error
			for err == nil {
				_, err = io.WriteString(c, text+"\r\n")
			}
			if took := time.Since(began); !errors.Is(err, io.ErrClosedPipe) || took < stall || took > 3*stall {
				t.Errorf("%q: %v after %v", request, err, took)
			}
		})
	}
}

// Over HTTP/2, a client cannot keep a request open by leaving it without a window.
func TestSilentStream(t *testing.T) {
	for _, target := range []string{"/f", "/none", "/", "/%2F", "/large"} {
		synctest.Test(t, func(t *testing.T) {
			c, began := startPiped(t, silentHandler(t)).listener.Dial(t), time.Now()
			go func() { _, _ = c.Write(streamRequest(target)) }()
			for {
				var head [9]byte // RFC 9113 §4.1
				_, err := io.ReadFull(c, head[:])
				if err == nil {
					_, err = io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head[:4])>>8))
				}
				if err != nil {
					t.Fatalf("%s: %v after %v", target, err, time.Since(began))
				}
				const rstStream = 3
				if head[3] == rstStream {
					break
				}
			}
			if took := time.Since(began); took < stall || took >= 2*stall {
				t.Errorf("%s: the stream was ended after %v", target, took)
			}
		})
	}
}

// A client that does not send unwanted content still gets the answer.
func TestAnswerToUnsentContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startPiped(t, silentHandler(t)).listener.Dial(t)
		go func() { _, _ = io.WriteString(c, "PUT /sub/ HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n") }()
		answer, err := io.ReadAll(c)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 409 ") || !strings.HasSuffix(string(answer), "\n") {
			t.Errorf("the answer is %q, %v", answer, err)
		}
	})
}

// A client that leaves before there is an answer does not count as a failure.
func TestGivenUp(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			asked := make(chan struct{})
			h := &web.Handler{Account: func(ctx context.Context, _ web.Visitor) (*web.Account, error) {
				close(asked)
				<-ctx.Done()
				return nil, fmt.Errorf("root: %w", ctx.Err())
			}}
			told := ended(h)
			ctx, leave := context.WithCancel(t.Context())
			r, err := http.NewRequestWithContext(ctx, "GET", "http://x/f", nil)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				<-asked
				leave()
			}()
			if _, err := startPiped(t, h).client(http2).Do(r); !errors.Is(err, context.Canceled) {
				t.Errorf("the client has %v", err)
			}
			if x := <-told; !errors.Is(x.Err, web.ErrGivenUp) || !errors.Is(x.Err, context.Canceled) {
				t.Errorf("by %s: ended with %d, %v", x.Proto, x.Status, x.Err)
			}
			if c := h.Counters(); c.Failed != 0 || c.Requests != 1 {
				t.Errorf("%+v", c)
			}
		})
	}
	// A context.Canceled that the program itself returns is a failure.
	h := &web.Handler{Account: func(context.Context, web.Visitor) (*web.Account, error) { return nil, context.Canceled }}
	ask(t, h, "GET /f", "").want(t, 503, "*")
	if c := h.Counters(); c.Failed != 1 {
		t.Errorf("%+v", c)
	}
}

// failingDisk accepts uploads but fails to write them.
type failingDisk struct{ store.Store }

type failingUpload struct{ store.Upload }

func (d failingDisk) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	u, err := d.Store.Create(ctx, name, c)
	return failingUpload{u}, err
}

func (failingUpload) WriteAt([]byte, int64) (int, error) { return 0, syscall.EIO }

// An upload that stops is answered and its connection is closed, whatever the number of missing
// bytes.
func TestUploadStops(t *testing.T) {
	const size = 400_000
	for name, test := range map[string]struct {
		broken bool
		sent   int
		answer string
	}{
		"from the start":          {false, 0, "HTTP/1.1 408 "},
		"near its end":            {false, size - 1, "HTTP/1.1 408 "},
		"after a disk that fails": {true, 300_000, "HTTP/1.1 500 "},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := silentHandler(t)
			if test.broken {
				h.Store = failingDisk{h.Store}
			}
			c, began := startPiped(t, h).listener.Dial(t), time.Now()
			go func() {
				_, _ = fmt.Fprintf(c, "PUT /new HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", size, pattern(test.sent))
			}()
			answer, err := io.ReadAll(c)
			if took := time.Since(began); err != nil || !strings.HasPrefix(string(answer), test.answer) || took >= 2*stall {
				t.Errorf("%s: %q, %v after %v", name, answer, err, took)
			}
			if !strings.Contains(string(answer), "\r\nConnection: close\r\n") {
				t.Errorf("%s: %q does not say that it is the last", name, answer)
			}
		})
	}
}

// streamRequest returns the bytes of an HTTP/2 client that sends a request and has no window for
// content (RFC 9113 §3.4, §6.5.2; RFC 7541 appendix A).
func streamRequest(target string) []byte {
	frame := func(kind, flags, stream byte, content []byte) []byte {
		return append([]byte{0, 0, byte(len(content)), kind, flags, 0, 0, 0, stream}, content...)
	}
	const settings, headers, endOfBoth = 4, 1, 0x5
	// The fields are GET, http, authority and path.
	fields := append([]byte{0x82, 0x86, 0x41, 1, 'x', 0x44, byte(len(target))}, target...)
	b := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(settings, 0, 0, []byte{0, 4, 0, 0, 0, 0})...)
	return append(b, frame(headers, endOfBoth, 1, fields)...)
}

// A client that is slow only because of the server's rate limit is not disconnected.
func TestRateIsNotSilence(t *testing.T) {
	for _, target := range []string{"/f", "/large", "/"} {
		for _, http2 := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				want := ask(t, silentHandler(t), "GET "+target, "").body
				h := silentHandler(t)
				h.Rate = int64(len(want))/int64(4*stall/time.Second) + 1
				resp, err := startPiped(t, h).client(http2).Get("http://x" + target)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(got) != want {
					t.Errorf("%s by %s: %d of %d bytes, %v", target, resp.Proto, len(got), len(want), err)
				}
			})
		}
	}
}

// A client that sends a byte of its upload now and then is disconnected after the same time as a
// client that sends nothing. A client that sends fast enough may take longer than the stall
// timeout.
func TestTrickle(t *testing.T) {
	const size = 128 << 10
	for _, http2 := range []bool{false, true} {
		for name, c := range map[string]struct {
			piece  int
			every  time.Duration
			status int
		}{
			"a byte at a time":           {1, stall - time.Second, http.StatusRequestTimeout},
			"nearly the least":           {14 << 10, stall - time.Second, http.StatusRequestTimeout},
			"the least":                  {16 << 10, stall - time.Second, http.StatusCreated},
			"the least in small pieces":  {512, time.Second, http.StatusCreated},
			"all but a few bytes":        {size - 10, stall + time.Second, http.StatusRequestTimeout},
			"all, a moment after asking": {size, stall - time.Second, http.StatusCreated},
		} {
			synctest.Test(t, func(t *testing.T) {
				h := silentHandler(t)
				w := startPiped(t, h)
				ctx, cancel := context.WithCancel(t.Context())
				t.Cleanup(func() {
					cancel()
					synctest.Wait() // wait for the trickle's goroutine
				})
				r, err := http.NewRequestWithContext(ctx, "PUT", "http://x/new", chunked{&trickle{left: size, piece: c.piece, every: c.every, ctx: ctx}})
				if err != nil {
					t.Fatal(err)
				}
				if !http2 {
					r.ContentLength = size // over HTTP/2 the size is unknown
				}
				began := time.Now()
				resp, err := w.client(http2).Do(r)
				if err != nil {
					t.Fatalf("%s, HTTP/2 %t: %v after %v", name, http2, err, time.Since(began))
				}
				resp.Body.Close()
				if took := time.Since(began); resp.StatusCode != c.status || c.status != http.StatusCreated && took > 3*stall {
					t.Errorf("%s, HTTP/2 %t: %d after %v", name, http2, resp.StatusCode, took)
				}
				if c.status == http.StatusCreated && len(content(t, h.Store, "new")) != size {
					t.Errorf("%s, HTTP/2 %t: another file is stored", name, http2)
				}
			})
		}
	}
}

// A trickle is content that arrives piece by piece, with a pause before each piece.
type trickle struct {
	left, piece int
	every       time.Duration
	ctx         context.Context
}

func (r *trickle) Read(p []byte) (int, error) {
	n := min(r.left, r.piece, len(p))
	if n == 0 {
		return 0, io.EOF
	}
	select {
	case <-time.After(r.every):
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
	r.left -= n
	return n, nil
}
