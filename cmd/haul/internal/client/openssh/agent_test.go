package openssh

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// startAgent serves every connection to a socket, and returns the socket's path.
func startAgent(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent") //nolint:usetesting // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Skip(err)
	}
	var work sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			work.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		work.Wait()
		_ = os.RemoveAll(dir)
	})
	return socket
}

// agentWith starts an agent with some keys.
func agentWith(t *testing.T, keys ...any) string {
	t.Helper()
	ring := agent.NewKeyring()
	for _, k := range keys {
		if err := ring.Add(agent.AddedKey{PrivateKey: k, Comment: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	return startAgent(t, func(c net.Conn) { _ = agent.ServeAgent(ring, c) })
}

func publicOf(t *testing.T, raw any) ssh.PublicKey {
	t.Helper()
	s, err := ssh.NewSignerFromKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	return s.PublicKey()
}

func TestAgent(t *testing.T) {
	for _, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		raw := rawKey(t, kind)
		config := takes(publicOf(t, raw))
		config.PublicKeyAuthAlgorithms = secure.PublicKeyAuths
		s := startServer(t, config)
		dest := s.dest(t)
		dest.IdentityAgent = agentWith(t, rawKey(t, "ed25519"), raw)
		dialOK(t, &Dialer{}, dest)

		// With IdentitiesOnly the key must be configured, by its private or its public file.
		dest.IdentitiesOnly = true
		dialFails(t, &Dialer{}, dest, ErrAuth)
		text := string(ssh.MarshalAuthorizedKey(publicOf(t, raw)))
		dest.IdentityFiles = []string{writeFile(t, "id", text)}
		dialOK(t, &Dialer{}, dest)
		file := filepath.Join(t.TempDir(), "id")
		writeFile(t, file+".pub", text)
		dest.IdentityFiles = []string{file}
		dialOK(t, &Dialer{}, dest)
	}
}

// A private key file that others may read still serves as a public key, for a private key in the
// agent.
func TestAgentReadableFiles(t *testing.T) {
	for _, passphrase := range []string{"", "locked"} {
		file, key := writeKey(t, "ed25519", passphrase)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := ssh.ParseRawPrivateKey(text)
		if passphrase != "" {
			raw, err = ssh.ParseRawPrivateKeyWithPassphrase(text, []byte(passphrase))
		}
		if err != nil {
			t.Fatal(err)
		}
		public := writeFile(t, file+".pub", string(ssh.MarshalAuthorizedKey(key.PublicKey())))
		for _, f := range []string{file, public} {
			if err := os.Chmod(f, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		dest := startServer(t, takes(key.PublicKey())).dest(t)
		dest.IdentitiesOnly = true
		for _, f := range []string{public, file} {
			dest.IdentityFiles, dest.IdentityAgent = []string{f}, agentWith(t, rawKey(t, "ed25519"), raw)
			dialOK(t, &Dialer{}, dest)
			dest.IdentityAgent = agentWith(t, rawKey(t, "ed25519"))
			dialFails(t, &Dialer{}, dest, ErrAuth, "key "+f)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		dest.IdentityAgent = agentWith(t, raw)
		dialOK(t, &Dialer{}, dest)
	}
}

// A configured key that the agent has comes first, and needs no passphrase.
func TestAgentBeforeFile(t *testing.T) {
	file, key := writeKey(t, "ed25519", "locked")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := ssh.ParseRawPrivateKeyWithPassphrase(text, []byte("locked"))
	if err != nil {
		t.Fatal(err)
	}
	config := takes(key.PublicKey())
	config.MaxAuthTries = 1
	s := startServer(t, config)
	dest := s.dest(t)
	dest.IdentityFiles = []string{file}
	dest.IdentityAgent = agentWith(t, rawKey(t, "ed25519"), raw)
	dialOK(t, &Dialer{}, dest)
}

// A certificate from a file works with a key of the agent.
func TestAgentAndCertificate(t *testing.T) {
	raw, authority := rawKey(t, "ecdsa"), newKey(t, "ed25519")
	cert := certify(t, publicOf(t, raw), authority, ssh.UserCert, func(c *ssh.Certificate) { c.ValidPrincipals = []string{"bob"} })
	checker := ssh.CertChecker{IsUserAuthority: func(k ssh.PublicKey) bool { return sameKey(k, authority.PublicKey()) }}
	s := startServer(t, &ssh.ServerConfig{PublicKeyCallback: checker.Authenticate})
	dest := s.dest(t)
	dest.IdentityAgent = agentWith(t, raw)
	dest.CertificateFiles = []string{writeFile(t, "cert", string(ssh.MarshalAuthorizedKey(cert)))}
	dialOK(t, &Dialer{}, dest)
}

// reply sends an agent's message.
func reply(c net.Conn, body []byte) {
	msg := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	_, _ = c.Write(append(msg, body...))
}

// Whatever an agent answers, the login continues without it, and nothing hangs.
func TestHostileAgent(t *testing.T) {
	file, key := writeKey(t, "ed25519", "")
	s := startServer(t, takes(key.PublicKey()))
	good := key.PublicKey().Marshal()
	list := func(n uint32, keys ...[]byte) []byte {
		b := binary.BigEndian.AppendUint32([]byte{12}, n)
		for _, k := range keys {
			b = binary.BigEndian.AppendUint32(b, uint32(len(k)))
			b = append(b, k...)
			b = binary.BigEndian.AppendUint32(b, 0)
		}
		return b
	}
	unknown := ssh.Marshal(struct{ A, B string }{"ssh-nonsense", "x"})
	tests := map[string]func(net.Conn){
		"closes":            func(net.Conn) {},
		"garbage":           func(c net.Conn) { _, _ = c.Write(bytes.Repeat([]byte{0xff}, 100)) },
		"nothing":           func(c net.Conn) { reply(c, nil) },
		"failure":           func(c net.Conn) { reply(c, []byte{5}) },
		"success":           func(c net.Conn) { reply(c, []byte{6}) },
		"unknown type":      func(c net.Conn) { reply(c, []byte{200, 1, 2, 3}) },
		"too many keys":     func(c net.Conn) { reply(c, list(1<<31)) },
		"fewer keys":        func(c net.Conn) { reply(c, list(3, good)) },
		"empty key":         func(c net.Conn) { reply(c, list(1, nil)) },
		"unknown key":       func(c net.Conn) { reply(c, list(1, unknown)) },
		"cut key":           func(c net.Conn) { reply(c, list(1, good[:20])) },
		"cut off":           func(c net.Conn) { _, _ = c.Write([]byte{0, 0, 1, 0, 12}) },
		"random":            func(c net.Conn) { b := make([]byte, 64); _, _ = rand.Read(b); reply(c, append([]byte{12}, b...)) },
		"more than asked":   func(c net.Conn) { reply(c, list(0)); reply(c, list(0)); reply(c, []byte{14}) },
		"key, no signature": func(c net.Conn) { reply(c, list(1, good)); _, _ = io.ReadFull(c, make([]byte, 5)) },
		"key, bad signature": func(c net.Conn) {
			reply(c, list(1, good))
			readMessage(c)
			sig := ssh.Marshal(ssh.Signature{Format: "ssh-ed25519", Blob: make([]byte, 64)})
			reply(c, append([]byte{14}, ssh.Marshal(struct{ S []byte }{sig})...))
		},
		"key, other signature": func(c net.Conn) {
			reply(c, list(1, good))
			readMessage(c)
			sig := ssh.Marshal(ssh.Signature{Format: "x\x1b[31m", Blob: nil})
			reply(c, append([]byte{14}, ssh.Marshal(struct{ S []byte }{sig})...))
		},
	}
	for name, answer := range tests {
		t.Run(name, func(t *testing.T) {
			socket := startAgent(t, func(c net.Conn) {
				_, _ = io.ReadFull(c, make([]byte, 5)) // the request for the keys
				answer(c)
			})
			dest := s.dest(t)
			dest.IdentityAgent = socket
			class := ErrAuth
			if name == "key, bad signature" {
				class = io.EOF // the server of package ssh ends the connection then
			}
			err := dialError(t, &Dialer{}, dest, class)
			if strings.ContainsAny(err.Error(), "\x1b\x00") {
				t.Errorf("cannot be printed: %q", err)
			}
			if strings.HasPrefix(name, "key, ") {
				return // the agent has our key too, and it was offered
			}
			dest.IdentityFiles = []string{file}
			dialOK(t, &Dialer{}, dest)
		})
	}
}

// A silent agent delays the login no longer than the context allows.
func TestSilentAgent(t *testing.T) {
	raw := rawKey(t, "ed25519")
	s := startServer(t, takes(publicOf(t, raw)))
	for _, keys := range []bool{false, true} {
		waiting := make(chan struct{}, 1)
		socket := startAgent(t, func(c net.Conn) {
			_, _ = io.ReadFull(c, make([]byte, 5))
			if keys {
				k := publicOf(t, raw).Marshal()
				b := binary.BigEndian.AppendUint32([]byte{12, 0, 0, 0, 1}, uint32(len(k)))
				reply(c, append(append(b, k...), 0, 0, 0, 0))
				_, _ = io.ReadFull(c, make([]byte, 5)) // the request to sign
			}
			waiting <- struct{}{}
			_, _ = io.Copy(io.Discard, c)
		})
		dest := s.dest(t)
		dest.IdentityAgent = socket
		ctx, cancel := context.WithCancel(withTimeout(t))
		go func() {
			<-waiting
			cancel()
		}()
		if _, err := (&Dialer{}).Dial(ctx, dest); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		cancel()
	}
}

// Requests to an agent also have a time limit of their own. After one has expired, or after
// nonsense, the agent is not used any more: its late answer must not pass for the answer to the next
// request.
func TestAgentTime(t *testing.T) {
	late := make(chan struct{})
	socket := startAgent(t, func(c net.Conn) {
		readMessage(c)
		<-late
		reply(c, []byte{12, 0, 0, 0, 0}) // a list without keys
		_, _ = io.Copy(io.Discard, c)
	})
	dial := func() (a *agentConn, list func() error) {
		a, err := dialAgent(withTimeout(t), socket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.close)
		return a, func() error {
			_, err := a.client.List()
			return err
		}
	}
	a, list := dial()
	if err := a.guarded(10*time.Millisecond, list); !errors.Is(err, os.ErrDeadlineExceeded) && (err == nil || !strings.Contains(err.Error(), "timeout")) {
		t.Errorf("got %v", err)
	}
	close(late)
	if err := a.guarded(testPatience, list); err == nil {
		t.Error("a late answer was taken for another request's")
	}
	a, list = dial()
	if err := a.guarded(testPatience, func() error { panic("nonsense") }); err == nil {
		t.Error("a panic passed")
	}
	if err := a.guarded(testPatience, list); err == nil {
		t.Error("a broken agent answered")
	}
}

// This test runs OpenSSH's agent, with keys added by ssh-add.
func TestRealAgent(t *testing.T) {
	dir, err := os.MkdirTemp("", "agent") //nolint:usetesting // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(program(t, "ssh-agent"), "-D", "-a", socket)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	for deadline := time.Now().Add(testPatience); ; time.Sleep(time.Millisecond) {
		if c, err := net.Dial("unix", socket); err == nil {
			_ = c.Close()
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	for _, kind := range []string{"ed25519", "rsa"} {
		file, key := writeKey(t, kind, "")
		add := exec.CommandContext(withTimeout(t), program(t, "ssh-add"), file)
		add.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
		if out, err := add.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		config := takes(key.PublicKey())
		config.PublicKeyAuthAlgorithms = secure.PublicKeyAuths
		s := startServer(t, config)
		dest := s.dest(t)
		dest.IdentityAgent = socket
		dialOK(t, &Dialer{}, dest)
	}
}

// readMessage reads any message to an agent.
func readMessage(c net.Conn) {
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err == nil {
		_, _ = io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(size[:])))
	}
}
