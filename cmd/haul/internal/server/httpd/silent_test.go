//go:build unix

package httpd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/internal/certs"
	"github.com/haul-project/haul/internal/pipelisten"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/store/storetest"
	"github.com/haul-project/haul/tcp"
	"github.com/haul-project/haul/web"
)

// startPort serves the connections of l until the test ends.
func startPort[L net.Listener](t *testing.T, p *port, l L, serve func(L) error) {
	t.Helper()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = serve(l) // until l is closed
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-served
		p.close()
	})
}

// pipeTo opens a port without TLS inside a synctest bubble, and connects to it.
func pipeTo(t *testing.T) net.Conn {
	t.Helper()
	st := store.Mem(0)
	storetest.Put(t, st, "f", "")
	p, l := &port{scheme: handover.HTTP}, pipelisten.New()
	p.open(&web.Handler{Store: st}, io.Discard)
	startPort(t, p, net.Listener(l), p.http1.Serve)
	return l.Dial(t)
}

// ownAnswers are requests that net/http answers itself, and the answers.
var ownAnswers = map[string]string{
	"\r\n\r\n":                "400 Bad Request",
	"GET /f\r\n\r\n":          "400 Bad Request",
	"GET /f HTTP/1.1\r\n\r\n": "400 Bad Request: missing required Host header",
	"GET /f HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n":                                                       "400 Bad Request",
	"GET /f HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: x\r\n\r\n":                                      "501 Not Implemented",
	"GET /f HTTP/1.1\r\nHost: x\r\nExpect: y\r\n\r\n":                                                 "417 Expectation Failed",
	"GET /f HTTP/9.1\r\nHost: x\r\n\r\n":                                                              "505 HTTP Version Not Supported",
	"GET /f HTTP/1.1\r\nHost: x\r\nCookie: " + strings.Repeat("x", headerBytes+(4<<10)) + "\r\n\r\n":  "431 Request Header Fields Too Large",
	"GET /f HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\n", (headerBytes+(4<<10))/6+1) + "\r\n": "431 Request Header Fields Too Large",
}

// An answer of net/http itself ends its connection in time if the client does not read it, like an
// answer of the handler. This holds at the beginning, and after an answer of the handler.
func TestSilentClientOfOwnAnswers(t *testing.T) {
	const ok = "GET /f HTTP/1.1\r\nHost: x\r\n\r\n"
	for request, status := range ownAnswers {
		for _, before := range []int{0, 1} {
			synctest.Test(t, func(t *testing.T) {
				c := pipeTo(t)
				for range before {
					_, _ = io.WriteString(c, ok)
					if got := answerHead(c); !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") {
						t.Fatalf("%q", got)
					}
				}
				began := time.Now()
				go func() { _, _ = io.WriteString(c, request) }()
				time.Sleep(web.DefaultStall - time.Second)
				// The answer is still there for a slow client.
				if first := readByte(c); first != 'H' {
					t.Fatalf("%.60q: no answer before it is time", request)
				}
				time.Sleep(2 * time.Second)
				rest, err := io.ReadAll(c)
				if took := time.Since(began); err != nil || len(rest) > 0 || took > web.DefaultStall+10*time.Second {
					t.Errorf("%.60q: after its time, %q comes, %v, after %v", request, rest, err, took)
				}
			})
		}
		// Check that it was that answer.
		synctest.Test(t, func(t *testing.T) {
			c := pipeTo(t)
			go func() { _, _ = io.WriteString(c, request) }()
			if got := answerHead(c); !strings.HasPrefix(got, "HTTP/1.1 "+status) {
				t.Errorf("%.60q: %q, want %q", request, got, status)
			}
			_, _ = io.Copy(io.Discard, c)
		})
	}
}

// answerHead reads the header of an answer.
func answerHead(c net.Conn) string {
	var head strings.Builder
	for !strings.HasSuffix(head.String(), "\r\n\r\n") {
		b := readByte(c)
		if b == 0 {
			break
		}
		head.WriteByte(b)
	}
	return head.String()
}

// readByte reads a byte; it returns 0 at the end.
func readByte(c net.Conn) byte {
	var b [1]byte
	_, _ = io.ReadFull(c, b[:])
	return b[0]
}

// A countingStore counts the files that are open.
type countingStore struct {
	store.Store
	opened, open *atomic.Int64
}

type countedFile struct {
	store.File
	open *atomic.Int64
}

func (s countingStore) Open(ctx context.Context, name string) (store.File, error) {
	f, err := s.Store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	s.opened.Add(1)
	s.open.Add(1)
	return countedFile{f, s.open}, nil
}

func (f countedFile) Close() error {
	defer f.open.Add(-1)
	return f.File.Close()
}

// h2Frame returns a frame of HTTP/2 (RFC 9113 §4.1).
func h2Frame(kind, flags, stream byte, content string) string {
	return string([]byte{0, 0, byte(len(content)), kind, flags, 0, 0, 0, stream}) + content
}

// h2Requests returns the bytes of a client that requests a file on several streams, with windows
// for everything that may arrive (RFC 9113 §3.4, §6; RFC 7541 appendix A).
func h2Requests(target string, streams int) string {
	const headers, settings, windowUpdate, endOfBoth = 1, 4, 8, 0x5
	const most = "\x7f\xff\xff\xff"
	text := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + h2Frame(settings, 0, 0, "\x00\x04"+most) +
		h2Frame(windowUpdate, 0, 0, "\x7f\xff\x00\x00") // 65,535 are there
	fields := "\x82\x87\x41\x01x\x44" + string([]byte{byte(len(target))}) + target // GET, https, authority, path
	for i := range streams {
		text += h2Frame(headers, endOfBoth, byte(2*i+1), fields)
	}
	return text
}

// An HTTP/2 client that sends requests and then reads nothing loses its connection in time, with
// everything that its requests hold. The handler's own limit for a stream is too long to matter
// here.
func TestSilentConnectionOfHTTP2(t *testing.T) {
	const size = 64 << 20 // more than the buffers of any connection hold
	path := t.TempDir()
	servetest.WriteFile(t, filepath.Join(path, "f"), "")
	if err := os.Truncate(filepath.Join(path, "f"), size); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	cert, err := certs.SelfSigned("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for _, streams := range []int{1, streams} {
		t.Run(fmt.Sprint(streams), func(t *testing.T) {
			t.Parallel() // crypto/tls may take 5 seconds to notify the client of the end
			testSilentConnection(t, streams, size, localdir.New(root), cert)
		})
	}
}

func testSilentConnection(t *testing.T, streams int, size int64, files store.Store, cert tls.Certificate) {
	var opened, open atomic.Int64
	h := &web.Handler{Store: countingStore{files, &opened, &open}, Stall: 24 * time.Hour}
	p := &port{scheme: handover.HTTPS, accept: tcp.Server{Log: slog.New(slog.DiscardHandler), SplitALPN: "h2"}}
	p.accept.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}
	p.open(h, io.Discard)
	p.stall = web.DefaultStall / 60
	socket, err := tcp.Listen(t.Context(), "127.0.0.1:0", socketOptions)
	if err != nil {
		t.Fatal(err)
	}
	l, err := p.accept.Listener(socket)
	if err != nil {
		t.Fatal(err)
	}
	startPort(t, p, l, p.serve)
	raw, err := net.Dial("tcp", socket.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	c.SetWriteDeadline(time.Now().Add(servetest.Patience))
	if _, err := io.WriteString(c, h2Requests("/f", streams)); err != nil {
		t.Fatal(err)
	}
	servetest.Eventually(t, fmt.Sprintf("%d files are opened", streams), func() bool { return opened.Load() == int64(streams) })
	servetest.Eventually(t, "the connection is ended, and the files closed", func() bool {
		return p.accept.Counters().Conns == 0 && open.Load() == 0 && h.Counters().Active == 0
	})
	// The buffered bytes arrive, and then the end; the file is longer.
	c.SetReadDeadline(time.Now().Add(servetest.Patience))
	n, err := io.Copy(io.Discard, c)
	if errors.Is(err, os.ErrDeadlineExceeded) || n == 0 || n >= size {
		t.Errorf("%d bytes come, and then %v", n, err)
	}
	if got := h.Counters(); got.Requests != int64(streams) || got.Failed != int64(streams) {
		t.Errorf("%+v", got)
	}
}

// A client that has requested nothing and does not read the server's first frames loses its
// connection in time, too.
func TestSilentBeginOfHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cert, err := certs.SelfSigned("x")
		if err != nil {
			t.Fatal(err)
		}
		p := &port{scheme: handover.HTTPS, accept: tcp.Server{TLS: &tls.Config{}}}
		p.open(http.NotFoundHandler(), io.Discard)
		l := pipelisten.New()
		startPort(t, p, net.Listener(l), p.serveHTTP2)
		here, there := net.Pipe()
		defer here.Close()
		c := tls.Client(here, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		s := tls.Server(there, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}, MaxVersion: tls.VersionTLS12})
		shaken := make(chan error, 1)
		go func() { shaken <- s.Handshake() }()
		if err := errors.Join(c.Handshake(), <-shaken); err != nil {
			t.Fatal(err)
		}
		l.Conns <- s
		began := time.Now()
		_ = here.SetWriteDeadline(began.Add(time.Hour)) // ends the test, if nothing else does
		_, err = io.WriteString(c, h2Requests("/f", 1))
		for err == nil {
			time.Sleep(time.Second)
			_, err = io.WriteString(c, h2Frame(6, 0, 0, "pingpong"))
		}
		if took := time.Since(began); !errors.Is(err, io.ErrClosedPipe) || took < web.DefaultStall || took > 2*web.DefaultStall {
			t.Errorf("it ends by %v after %v", err, took)
		}
	})
}
