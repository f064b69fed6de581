package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"
)

// secure connects with TLS, and reports whether the connection is served.
func secure(t *testing.T, at string) bool {
	t.Helper()
	_, client := testTLS()
	c := tls.Client(dial(t, at), client)
	defer c.Close()
	return works(c)
}

// Any number of clients that begin a handshake and then stay silent does not block others.
func TestHandshakesSlow(t *testing.T) {
	server, _ := testTLS()
	s := &Server{TLS: server, MaxHandshakes: 2, HandshakeTimeout: patience, Handle: echo}
	at, _ := serve(t, s)
	const slow = 20
	for range slow {
		c := dial(t, at)
		_, _ = c.Write([]byte{22}) // beginning of a record
	}
	eventually(t, "they are there", func() bool { return s.Counters().Conns == slow })
	if !secure(t, at) {
		t.Error("they keep others out")
	}
	if n := s.Counters().Handshakes; n > 2 {
		t.Errorf("%d handshakes at a time", n)
	}
}

// Clients of a Listener that send nothing at all do not block others either, even if there are more of
// them than connections may wait for Accept.
func TestListenerSilent(t *testing.T) {
	server, client := testTLS()
	s := &Server{TLS: server, HandshakeTimeout: patience}
	l := listenFor(t, s)
	defer l.Close()
	for range maxPending + 10 {
		dial(t, l.Addr().String())
	}
	c := tls.Client(dial(t, l.Addr().String()), client)
	shaken := make(chan error, 1)
	go func() { shaken <- c.Handshake() }()
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = nc.Close()
	if err := <-shaken; err != nil {
		t.Error(err)
	}
	s.Halt()
}

// panics returns a server's configuration that panics for one name.
func panics(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	server, client = testTLS()
	good := server.Certificates[0]
	server = &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if h.ServerName == "panic.example.com" {
			panic("no certificate")
		}
		return &good, nil
	}}
	client = client.Clone()
	client.ServerName = "panic.example.com"
	return server, client
}

// If a function of the program panics during a handshake, only that connection ends, and its
// place is freed.
func TestHandshakePanics(t *testing.T) {
	server, bad := panics(t)
	s := &Server{TLS: server, MaxHandshakes: 1, Handle: echo, Log: slog.New(slog.DiscardHandler)}
	at, _ := serve(t, s)
	for range 3 {
		if err := tls.Client(dial(t, at), bad).Handshake(); err == nil {
			t.Error("the handshake was done")
		}
	}
	if !secure(t, at) {
		t.Error("the place is lost")
	}
	eventually(t, "all have ended", func() bool { return s.Counters().Conns == 0 })
	if c := s.Counters(); c.Panics != 3 || c.Handshakes != 0 {
		t.Errorf("%+v", c)
	}
}

func TestListenerPanics(t *testing.T) {
	server, bad := panics(t)
	s := &Server{TLS: server, MaxHandshakes: 1, Log: slog.New(slog.DiscardHandler)}
	l := listenFor(t, s)
	at := l.Addr().String()
	if err := tls.Client(dial(t, at), bad).Handshake(); err == nil {
		t.Error("the handshake was done")
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				echo(t.Context(), c)
			}()
		}
	}()
	if !secure(t, at) {
		t.Error("the place is lost")
	}
	if n := s.Counters().Panics; n != 1 {
		t.Errorf("%d panics", n)
	}
	_ = l.Close()
	eventually(t, "all have ended", func() bool { return s.Counters().Conns == 0 })
}

// A client that is connected when the server begins to end has a moment to begin the handshake, and
// the whole Server.Grace to complete it.
func TestHandshakeAtTheEnd(t *testing.T) {
	server, client := testTLS()
	for _, inside := range []bool{false, true} {
		begun := make(chan net.Conn, 1)
		s := &Server{Grace: patience, HandshakeTimeout: patience, drainTime: patience, Handle: echo, TLS: server}
		if inside {
			s.TLS = nil
			s.Handle = func(ctx context.Context, c net.Conn) {
				begun <- c
				<-Draining(ctx)
				if secure, err := StartTLS(ctx, c, server); err == nil {
					echo(ctx, secure)
				} else {
					t.Errorf("STARTTLS: %v", err)
				}
			}
		}
		at, stop := serve(t, s)
		c := dial(t, at)
		eventually(t, "it is there", func() bool { return s.Counters().Conns == 1 })
		if inside {
			<-begun
		}
		ended := make(chan error, 1)
		go func() { ended <- stop() }()
		eventually(t, "the end begins", func() bool { r := s.runs.list(); return len(r) == 1 && r[0].Draining() })
		sec := tls.Client(c, client)
		if !works(sec) {
			t.Errorf("inside %t: it was not served", inside)
		}
		_ = sec.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// The context of StartTLS limits its duration.
func TestStartTLSContext(t *testing.T) {
	server, _ := testTLS()
	why := errors.New("enough")
	result := make(chan error, 2)
	s := &Server{HandshakeTimeout: time.Hour, Handle: func(ctx context.Context, c net.Conn) {
		_, err := StartTLS(ctx, c, nil)
		result <- err
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		if c.(*Conn).WaitReadable() == nil { // during the handshake
			time.AfterFunc(time.Millisecond, func() { cancel(why) })
		}
		_, err = StartTLS(ctx, c, server)
		result <- err
	}}
	at, _ := serve(t, s)
	c := dial(t, at)
	if err := <-result; err == nil {
		t.Error("it began without a configuration")
	}
	_, _ = c.Write([]byte{22})
	if err := <-result; !errors.Is(err, why) {
		t.Errorf("it ended by %v", err)
	}
	if _, err := io.ReadAll(c); err != nil {
		t.Logf("the client sees %v", err)
	}
}
