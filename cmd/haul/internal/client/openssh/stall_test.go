package openssh

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// A choke is a proxy that forwards a number of bytes from the server, and then cuts the connection
// or goes silent.
type choke struct {
	addr    *net.TCPAddr
	reached chan struct{} // receives a value once the bytes are forwarded

	mu     sync.Mutex
	passed int64
}

// startChoke starts a choke in front of a server. After the given number of bytes, it cuts the
// connection if cut is set, and otherwise goes silent.
func startChoke(t *testing.T, s *server, bytes int64, cut bool) *choke {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &choke{addr: l.Addr().(*net.TCPAddr), reached: make(chan struct{}, 1)}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", s.addr.String())
			if err != nil {
				_ = in.Close()
				continue
			}
			work.Go(func() { _, _ = io.Copy(out, in); _ = out.Close() })
			work.Go(func() {
				n, err := io.CopyN(in, out, bytes)
				c.mu.Lock()
				c.passed += n
				c.mu.Unlock()
				if err == nil {
					select {
					case c.reached <- struct{}{}:
					default:
					}
				}
				if cut || err != nil {
					_ = in.Close()
				}
				_, _ = io.Copy(io.Discard, out)
				_ = out.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.hangUp()
		work.Wait()
	})
	return c
}

// busyServer returns a server whose login has all phases: a key that it refuses, one that it
// accepts, questions, and a password.
func busyServer(t *testing.T) (*server, Destination, *script) {
	t.Helper()
	unwanted, _ := writeKey(t, "ed25519", "")
	file, key := writeKey(t, "ecdsa", "")
	last := ssh.ServerAuthCallbacks{PasswordCallback: takesPassword("pw").PasswordCallback}
	next := ssh.ServerAuthCallbacks{KeyboardInteractiveCallback: func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
		if _, err := ask("", "", []string{"Code: "}, []bool{true}); err != nil {
			return nil, err
		}
		return nil, &ssh.PartialSuccessError{Next: last}
	}}
	s := startServer(t, &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if sameKey(k, key.PublicKey()) {
			return nil, &ssh.PartialSuccessError{Next: next}
		}
		return nil, errors.New("not this key")
	}})
	dest := s.dest(t)
	dest.IdentityFiles = []string{unwanted, file}
	dest.HostKeyAlias = "busy"
	for _, k := range s.keys {
		if _, err := addKnown(dest.UserKnownHostsFiles[0], "busy", k.PublicKey(), false); err != nil {
			t.Fatal(err)
		}
	}
	p := &script{interact: func(Challenge) ([]string, error) { return []string{"1"}, nil }}
	for range 1000 {
		p.passwords = append(p.passwords, "pw")
	}
	return s, dest, p
}

// handshakeBytes returns how many bytes a server sends until the login succeeds.
func handshakeBytes(t *testing.T, s *server, d *Dialer, dest Destination) int64 {
	t.Helper()
	c := startChoke(t, s, 1<<30, false)
	dest.Port = c.addr.Port
	client, err := d.Dial(withTimeout(t), dest)
	if err != nil {
		t.Fatal(err)
	}
	_ = client.Close()
	for deadline := time.Now().Add(testPatience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		c.mu.Lock()
		n := c.passed
		c.mu.Unlock()
		if n > 0 {
			return n
		}
	}
	t.Fatal("nothing passed")
	return 0
}

// A server may go silent at any point of the handshake. When the context ends, so does the wait,
// and nothing is left behind.
func TestSilenceAnywhere(t *testing.T) {
	s, dest, p := busyServer(t)
	d := &Dialer{Prompter: p}
	total := handshakeBytes(t, s, d, dest)
	// Random padding varies the length of packets, so stop before the end of the shortest handshake.
	for at := int64(0); at < total-200; at += total / 40 {
		c := startChoke(t, s, at, false)
		dest.Port = c.addr.Port
		ctx, cancel := context.WithCancel(withTimeout(t))
		go func() {
			<-c.reached
			cancel()
		}()
		client, err := d.Dial(ctx, dest)
		if err == nil {
			_ = client.Close()
			t.Fatalf("connected with %d of %d bytes", at, total)
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("after %d of %d bytes: %v", at, total, err)
		}
		cancel()
	}
}

// A connection may break at any point. The error is a network error.
func TestCutAnywhere(t *testing.T) {
	s, dest, p := busyServer(t)
	d := &Dialer{Prompter: p}
	total := handshakeBytes(t, s, d, dest)
	for at := int64(0); at < total-200; at += total / 40 {
		c := startChoke(t, s, at, true)
		dest.Port = c.addr.Port
		client, err := d.Dial(withTimeout(t), dest)
		if err == nil {
			_ = client.Close()
			t.Fatalf("connected with %d of %d bytes", at, total)
		}
		for _, class := range []error{ErrAuth, ErrHostKey, ErrConfig} {
			if errors.Is(err, class) {
				t.Errorf("after %d of %d bytes: %v", at, total, err)
			}
		}
	}
}

// ConnectTimeout covers everything up to the host key. So it also applies to servers that accept
// and say nothing, or send other text without end.
func TestConnectTimeout(t *testing.T) {
	for _, say := range []string{"", "SSH-2.0-x\r\n", "hello\r\n"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var work sync.WaitGroup
		work.Go(func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, say)
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		})
		dest := Destination{User: "bob", Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, Network: Network{ConnectTimeout: 50 * time.Millisecond}}
		dialFails(t, &Dialer{}, dest, os.ErrDeadlineExceeded, "connect to [127.0.0.1]:")
		_ = l.Close()
		work.Wait()
	}
}

// Without a server, the connection is refused or times out.
func TestNoServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	dest := Destination{User: "bob", Host: "127.0.0.1", Port: port}
	_, err = (&Dialer{}).Dial(withTimeout(t), dest)
	if ne, ok := errors.AsType[net.Error](err); !ok || errors.Is(err, ErrAuth) || errors.Is(err, ErrHostKey) || errors.Is(err, ErrConfig) {
		t.Errorf("got %v (%v)", err, ne)
	}
	dest.ConnectionAttempts = 3
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := (&Dialer{}).Dial(ctx, dest); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// If the user never answers, the wait ends with the context.
func TestStuckUser(t *testing.T) {
	s := startServer(t, openServer())
	dest := s.stranger(t)
	dest.Policy = Ask
	stuck := make(chan struct{})
	defer close(stuck)
	ctx, cancel := context.WithCancel(withTimeout(t))
	p := &slowUser{until: func() { cancel(); <-stuck }}
	if _, err := (&Dialer{Prompter: p}).Dial(ctx, dest); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A slowUser answers when the function `until` returns: with yes to a question, and with "x" to a
// prompt for a password.
type slowUser struct {
	Batch
	until func()
}

func (u *slowUser) Confirm(context.Context, string) (bool, error) {
	u.until()
	return true, nil
}

func (u *slowUser) Password(context.Context, string, string) (string, error) {
	u.until()
	return "x", nil
}

func TestPatience(t *testing.T) {
	cut := make(chan struct{})
	p := newPatience(time.Millisecond, func() { close(cut) })
	<-cut
	if !p.stop() {
		t.Error("cut, and does not say so")
	}
	p = newPatience(time.Hour, func() { t.Error("cut") })
	resume := p.pause()
	p.reset(time.Nanosecond) // the timer does not run while it is paused
	p.pause()()
	p.reset(time.Hour)
	resume()
	if p.stop() {
		t.Error("says it cut")
	}
}
