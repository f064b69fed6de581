package tcp

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/certs"
)

// faultPatience is how long a test waits for something that must happen. Machines may be slow, so
// only a failing test ever waits that long.
const faultPatience = 60 * time.Second

// A victim is a server under attack. It answers a line with the same line, and then another one:
// "big" with 8 MiB that a client may never read.
type victim struct {
	t        *testing.T
	addr     string
	started  atomic.Int64 // handlers started
	ended    atomic.Int64
	asked    atomic.Int64 // lines read
	answered atomic.Int64 // complete answers
	halt     context.CancelFunc
	result   chan error
	tls      *tls.Config // for its clients; nil for none
}

const bigAnswer = 8 << 20 // bytes: more than the sockets' buffers hold

// startVictim runs a server until the test ends.
func startVictim(t *testing.T, s *Server) *victim {
	t.Helper()
	v := &victim{t: t, result: make(chan error, 1)}
	s.Handle = v.handle
	if s.TLS != nil {
		v.tls = &tls.Config{InsecureSkipVerify: true}
	}
	socket := listenSocket(t, Options{})
	v.addr = socket.Addr().String()
	ctx, halt := context.WithCancel(context.Background())
	v.halt = halt
	go func() { v.result <- s.Serve(ctx, socket) }()
	t.Cleanup(func() {
		halt()
		select {
		case err := <-v.result:
			v.result <- err
		case <-time.After(faultPatience):
			t.Error("the server does not end")
		}
		if n, m := v.started.Load(), v.ended.Load(); n != m {
			t.Errorf("%d handlers have started, and %d ended, when Serve returned", n, m)
		}
	})
	return v
}

func (v *victim) handle(_ context.Context, c net.Conn) {
	v.started.Add(1)
	defer v.ended.Add(1)
	b := make([]byte, 4096)
	var line []byte
	for {
		n, err := c.Read(b)
		line = append(line, b[:n]...)
		if len(line) > len(b) {
			return
		}
		for {
			word, rest, whole := bytes.Cut(line, []byte{'\n'})
			if !whole {
				break
			}
			v.asked.Add(1)
			answer := append(bytes.Clone(word), '\n')
			if string(word) == "big" {
				answer = make([]byte, bigAnswer)
			}
			if _, err := c.Write(answer); err != nil {
				return
			}
			v.answered.Add(1)
			line = rest
		}
		if err != nil {
			return
		}
	}
}

// wantServed checks that a well-behaved client is served.
func (v *victim) wantServed() {
	v.t.Helper()
	c := v.dial()
	defer c.Close()
	var conn net.Conn = c
	if v.tls != nil {
		conn = tls.Client(c, v.tls)
	}
	conn.SetDeadline(time.Now().Add(faultPatience))
	const line = "how do you do\n"
	if _, err := io.WriteString(conn, line); err != nil {
		v.t.Fatalf("a client that behaves cannot write: %v", err)
	}
	b := make([]byte, len(line))
	if _, err := io.ReadFull(conn, b); err != nil || string(b) != line {
		v.t.Fatalf("a client that behaves gets %q, %v", b, err)
	}
}

// wantIdle waits until all handlers have returned.
func (v *victim) wantIdle() {
	v.t.Helper()
	for deadline := time.Now().Add(faultPatience); v.started.Load() != v.ended.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			v.t.Fatalf("%d handlers do not return", v.started.Load()-v.ended.Load())
		}
	}
}

func (v *victim) dial() *net.TCPConn {
	v.t.Helper()
	c, err := net.Dial("tcp", v.addr)
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// reset ends a connection with RST instead of FIN.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// wantEnd waits until the server ends a connection, with FIN or RST.
func wantEnd(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(faultPatience))
	if _, err := io.Copy(io.Discard, c); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		t.Error("the server does not end a connection")
	}
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// say writes, and ignores errors.
func say(c net.Conn, text string) { _, _ = io.WriteString(c, text) }

// resetPoints are the steps after which a client resets the connection.
var resetPoints = map[string]func(c *net.TCPConn){
	"at once":           func(*net.TCPConn) {},
	"in a line":         func(c *net.TCPConn) { say(c, "half a li") },
	"behind a line":     func(c *net.TCPConn) { say(c, "line\n") },
	"behind the answer": func(c *net.TCPConn) { say(c, "line\n"); _, _ = io.ReadFull(c, make([]byte, 5)) },
	"in the answer":     func(c *net.TCPConn) { say(c, "big\n"); _, _ = io.ReadFull(c, make([]byte, 1000)) },
	"half closed":       func(c *net.TCPConn) { say(c, "line\n"); _ = c.CloseWrite() },
	"half closed, big":  func(c *net.TCPConn) { say(c, "big\n"); _ = c.CloseWrite() },
}

func TestFaultResets(t *testing.T) {
	v := startVictim(t, &Server{})
	for name, up := range resetPoints {
		for range 20 {
			c := v.dial()
			up(c)
			reset(c)
		}
		v.wantServed()
		v.wantIdle()
		t.Log(name, v.started.Load(), "handlers so far")
	}
}

// clientHello is the first flight of a real client.
func clientHello(t *testing.T) []byte {
	t.Helper()
	near, far := net.Pipe()
	defer far.Close()
	go func() {
		_ = tls.Client(near, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(t.Context())
		near.Close()
	}()
	b := make([]byte, 4096)
	far.SetReadDeadline(time.Now().Add(faultPatience))
	n, err := far.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

func TestFaultTLS(t *testing.T) {
	cert, err := certs.SelfSigned("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	v := startVictim(t, &Server{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}})
	v.wantServed()
	v.wantIdle()
	good := v.started.Load()
	hello := string(clientHello(t))
	for name, text := range map[string]string{
		"nothing":            "",
		"one byte":           hello[:1],
		"a record's head":    hello[:5],
		"half a hello":       hello[:len(hello)/2],
		"a hello":            hello,
		"HTTP":               "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"SSH":                "SSH-2.0-x\r\n",
		"SSL 2":              "\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10",
		"zeros":              strings.Repeat("\x00", 1000),
		"a record too large": "\x16\x03\x01\xff\xff" + strings.Repeat("x", 70000),
		"an empty record":    strings.Repeat("\x16\x03\x01\x00\x00", 50),
		"an alert":           "\x15\x03\x01\x00\x02\x02\x28",
		"a broken hello":     hello[:20] + strings.Repeat("\xff", len(hello)-20),
		"two hellos":         hello + hello,
	} {
		for _, end := range []func(*net.TCPConn){reset, func(c *net.TCPConn) { _ = c.CloseWrite(); wantEnd(t, c) }} {
			for range 5 {
				c := v.dial()
				say(c, text)
				end(c)
			}
		}
		v.wantServed()
		if n := v.started.Load(); n != good+1 {
			t.Errorf("%s: %d handlers were started for it", name, n-good-1)
		}
		good = v.started.Load()
	}
}

// Silent clients do not prevent others from being served, and are disconnected.
func TestFaultSilent(t *testing.T) {
	const crowd = 1000
	t.Run("without a limit", func(t *testing.T) {
		v := startVictim(t, &Server{})
		for range crowd {
			v.dial()
		}
		v.wantServed()
	})
	t.Run("with a time", func(t *testing.T) {
		v := startVictim(t, &Server{FirstByteTimeout: 50 * time.Millisecond})
		var all []net.Conn
		for range crowd {
			all = append(all, v.dial())
		}
		for _, c := range all {
			wantEnd(t, c)
		}
		v.wantIdle()
	})
	t.Run("in the handshake", func(t *testing.T) {
		cert, err := certs.SelfSigned("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		v := startVictim(t, &Server{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}, HandshakeTimeout: 50 * time.Millisecond})
		hello := clientHello(t)
		var all []net.Conn
		for i := range crowd {
			c := v.dial()
			say(c, string(hello[:i%len(hello)]))
			all = append(all, c)
		}
		for _, c := range all {
			wantEnd(t, c)
		}
		if n := v.started.Load(); n != 0 {
			t.Errorf("%d handlers were started", n)
		}
	})
	t.Run("behind a line", func(t *testing.T) {
		v := startVictim(t, &Server{IdleTimeout: 50 * time.Millisecond})
		var all []net.Conn
		for range crowd {
			c := v.dial()
			say(c, "line\nand half of ano")
			all = append(all, c)
		}
		for _, c := range all {
			wantEnd(t, c)
		}
		v.wantIdle()
	})
	t.Run("who do not read", func(t *testing.T) {
		v := startVictim(t, &Server{IdleTimeout: 50 * time.Millisecond})
		for range 50 {
			say(v.dial(), "big\n")
		}
		for deadline := time.Now().Add(faultPatience); v.started.Load() < 50; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("not all were accepted")
			}
		}
		v.wantIdle()
	})
}

func TestFaultFlood(t *testing.T) {
	connects := 10_000
	if testing.Short() {
		connects = 1000
	}
	v := startVictim(t, &Server{})
	var served atomic.Int64
	var all sync.WaitGroup
	next := make(chan struct{}, connects)
	for range connects {
		next <- struct{}{}
	}
	close(next)
	for range 100 {
		all.Go(func() {
			for range next {
				c, err := net.Dial("tcp", v.addr)
				if err != nil {
					t.Error(err)
					continue
				}
				c.SetDeadline(time.Now().Add(faultPatience))
				say(c, "x\n")
				if _, err := io.ReadFull(c, make([]byte, 2)); err != nil {
					t.Error(err)
				} else {
					served.Add(1)
				}
				reset(c.(*net.TCPConn)) // otherwise ports would run out
			}
		})
	}
	all.Wait()
	if n := served.Load(); n != int64(connects) {
		t.Errorf("%d of %d were served", n, connects)
	}
	v.wantIdle()
}

// A proxy that sends a bad header is disconnected, and no handler sees the connection.
func TestFaultProxy(t *testing.T) {
	v := startVictim(t, &Server{Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	for _, tt := range hostileProxies {
		c := v.dial()
		say(c, tt.text)
		wantEnd(t, c)
	}
	for _, tt := range goodProxies {
		for _, n := range []int{0, 1, len(tt.text) / 2, len(tt.text) - 1} {
			c := v.dial()
			say(c, tt.text[:n])
			reset(c)
		}
	}
	if n := v.started.Load(); n != 0 {
		t.Errorf("%d handlers were started", n)
	}
	for i, tt := range goodProxies {
		c := v.dial()
		// It is sent in two pieces, once with the client's data in the second.
		at := i % len(tt.text)
		say(c, tt.text[:at])
		say(c, tt.text[at:]+"line\n")
		b := make([]byte, 5)
		c.SetReadDeadline(time.Now().Add(faultPatience))
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "line\n" {
			t.Errorf("%s: the answer is %q, %v", tt.name, b, err)
		}
		c.Close()
	}
	v.wantIdle()
}

// A server that ends under load completes all answers that it has begun.
func TestFaultShutdown(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for round := range 3 { // each ends with clients that try again after a second
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			v := startVictim(t, &Server{Grace: faultPatience})
			var whole, part atomic.Int64
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					for {
						c, err := net.Dial("tcp", v.addr)
						if err != nil {
							return // the server has ended
						}
						c.SetDeadline(time.Now().Add(faultPatience))
						say(c, "line\n")
						_ = c.(*net.TCPConn).CloseWrite()
						b, _ := io.ReadAll(c)
						switch string(b) {
						case "line\n":
							whole.Add(1)
						case "":
						default:
							part.Add(1)
						}
						reset(c.(*net.TCPConn))
					}
				})
			}
			for v.answered.Load() < 100*int64(round+1) {
				time.Sleep(time.Millisecond)
			}
			v.halt()
			err := <-v.result
			v.result <- err
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
			all.Wait()
			if answered := v.answered.Load(); v.asked.Load() != answered || whole.Load() != answered || part.Load() != 0 {
				t.Errorf("%d were asked for, %d answers written, %d of them arrived whole and %d in part", v.asked.Load(), answered, whole.Load(), part.Load())
			}
		})
	}
}
