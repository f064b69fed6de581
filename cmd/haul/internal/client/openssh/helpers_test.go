package openssh

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// testPatience bounds the wait for events that should happen at once. Machines may be slow, so only
// a failing test ever waits that long.
const testPatience = 30 * time.Second

// withTimeout returns a context that bounds a test.
func withTimeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testPatience)
	t.Cleanup(cancel)
	return ctx
}

// program returns the path of one of OpenSSH's programs, or skips the test if it is missing.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return path
}

// run runs a program and returns its output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(withTimeout(t), program(t, name), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// rawKey makes a private key of a kind: ed25519, rsa, or ecdsa.
func rawKey(t *testing.T, kind string) (key any) {
	t.Helper()
	var err error
	switch kind {
	case "ed25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	case "rsa":
		key, err = rsaKey()
	case "ecdsa":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	default:
		t.Fatalf("no keys of kind %s", kind)
	}
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newKey(t *testing.T, kind string) ssh.Signer {
	t.Helper()
	s, err := ssh.NewSignerFromKey(rawKey(t, kind))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// writeFile writes a temporary file that only its user may read.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(t.TempDir(), name)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// writeKey writes a private key, encrypted if there is a passphrase, and returns the path and the
// signer.
func writeKey(t *testing.T, kind, passphrase string) (string, ssh.Signer) {
	t.Helper()
	raw := rawKey(t, kind)
	block, err := ssh.MarshalPrivateKey(raw, "test")
	// ssh-keygen can derive a key from the passphrase in one round. Package ssh uses 16, which take
	// seconds under the race detector.
	keygen, none := exec.LookPath("ssh-keygen")
	if passphrase != "" && none != nil {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(raw, "test", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	file := writeFile(t, "id_"+kind, string(pem.EncodeToMemory(block)))
	if passphrase != "" && none == nil {
		run(t, keygen, "-q", "-p", "-a", "1", "-P", "", "-N", passphrase, "-f", file)
	}
	signer, err := ssh.NewSignerFromKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	return file, signer
}

// certify returns a certificate for a key. change may change it before it is signed.
func certify(t *testing.T, key ssh.PublicKey, authority ssh.Signer, kind uint32, change func(*ssh.Certificate)) *ssh.Certificate {
	t.Helper()
	c := &ssh.Certificate{Key: key, CertType: kind, KeyId: "test", ValidBefore: ssh.CertTimeInfinity}
	if change != nil {
		change(c)
	}
	if err := c.SignCert(rand.Reader, authority); err != nil {
		t.Fatal(err)
	}
	return c
}

// A server is an SSH server in this process. It serves only direct-tcpip, so that it can be a jump
// host.
type server struct {
	addr   *net.TCPAddr
	keys   []ssh.Signer
	config *ssh.ServerConfig

	mu    sync.Mutex
	conns []net.Conn
	seen  []string // requested addresses
}

// startServer serves with the given host keys, or with one ed25519 key if no keys are given.
func startServer(t *testing.T, config *ssh.ServerConfig, keys ...ssh.Signer) *server {
	t.Helper()
	if len(keys) == 0 {
		keys = []ssh.Signer{newKey(t, "ed25519")}
	}
	for _, k := range keys {
		config.AddHostKey(k)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: l.Addr().(*net.TCPAddr), keys: keys, config: config}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			work.Go(func() { s.serve(c, &work) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.hangUp()
		work.Wait()
	})
	return s
}

// hangUp closes all connections.
func (s *server) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
}

func (s *server) serve(c net.Conn, work *sync.WaitGroup) {
	defer c.Close()
	_, channels, requests, err := ssh.NewServerConn(c, s.config)
	if err != nil {
		return
	}
	work.Go(func() { ssh.DiscardRequests(requests) })
	for nc := range channels {
		var to struct {
			Host     string
			Port     uint32
			From     string
			FromPort uint32
		}
		if nc.ChannelType() != "direct-tcpip" || ssh.Unmarshal(nc.ExtraData(), &to) != nil {
			_ = nc.Reject(ssh.UnknownChannelType, "only direct-tcpip")
			continue
		}
		addr := net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port)))
		s.mu.Lock()
		s.seen = append(s.seen, addr)
		s.mu.Unlock()
		out, err := net.Dial("tcp", addr)
		if err != nil {
			_ = nc.Reject(ssh.ConnectionFailed, "cannot:\x1b[31m "+err.Error())
			continue
		}
		in, reqs, err := nc.Accept()
		if err != nil {
			_ = out.Close()
			continue
		}
		work.Go(func() { ssh.DiscardRequests(reqs) })
		work.Go(func() { _, _ = io.Copy(out, in); _ = out.Close() })
		work.Go(func() { _, _ = io.Copy(in, out); _ = in.Close() })
	}
}

// asked returns the addresses that clients wanted to connect to.
func (s *server) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// dest returns a destination for the server, with its keys in known_hosts.
func (s *server) dest(t *testing.T) Destination {
	t.Helper()
	d := s.stranger(t)
	for _, k := range s.keys {
		if _, err := addKnown(d.UserKnownHostsFiles[0], d.name(), k.PublicKey(), false); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// stranger returns a destination for the server, without known keys.
func (s *server) stranger(t *testing.T) Destination {
	t.Helper()
	return Destination{
		User: "bob", Host: "127.0.0.1", Port: s.addr.Port,
		HostKeyRules: HostKeyRules{Policy: Strict, UserKnownHostsFiles: []string{filepath.Join(t.TempDir(), "known_hosts")}},
	}
}

// takes returns a server configuration that accepts one public key, or user certificates that were
// signed with that key.
func takes(key ssh.PublicKey) *ssh.ServerConfig {
	return &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if sameKey(k, key) {
			return nil, nil
		}
		return nil, errors.New("not this key")
	}}
}

// takesPassword returns a server configuration that accepts one password.
func takesPassword(password string) *ssh.ServerConfig {
	return &ssh.ServerConfig{PasswordCallback: func(_ ssh.ConnMetadata, p []byte) (*ssh.Permissions, error) {
		if string(p) == password {
			return nil, nil
		}
		return nil, errors.New("not this password")
	}}
}

// A script is a Prompter with prepared answers that records the questions.
type script struct {
	mu          sync.Mutex
	passwords   []string
	passphrases []string
	yes         bool
	interact    func(Challenge) ([]string, error)
	asked       []string
}

func (s *script) answer(what string, from *[]string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, what)
	if len(*from) == 0 {
		return "", io.EOF // as if the user ended the input
	}
	a := (*from)[0]
	*from = (*from)[1:]
	return a, nil
}

func (s *script) Password(_ context.Context, user, host string) (string, error) {
	return s.answer("password "+user+"@"+host, &s.passwords)
}

func (s *script) Passphrase(_ context.Context, file string) (string, error) {
	return s.answer("passphrase "+filepath.Base(file), &s.passphrases)
}

func (s *script) Confirm(_ context.Context, text string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, text)
	return s.yes, nil
}

func (s *script) KeyboardInteractive(_ context.Context, c Challenge) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range c.Questions {
		s.asked = append(s.asked, q.Text)
	}
	return s.interact(c)
}

// log returns the recorded questions, and clears them.
func (s *script) log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

// dialOK dials, and fails the test on an error. The client is closed when the test ends.
func dialOK(t *testing.T, d *Dialer, dest Destination) *Client {
	t.Helper()
	c, err := d.Dial(withTimeout(t), dest)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// dialFails dials, and expects an error of a class whose text contains all words.
func dialFails(t *testing.T, d *Dialer, dest Destination, class error, words ...string) {
	t.Helper()
	_ = dialError(t, d, dest, class, words...)
}

// dialError does the same as dialFails, and returns the error.
func dialError(t *testing.T, d *Dialer, dest Destination, class error, words ...string) error {
	t.Helper()
	c, err := d.Dial(withTimeout(t), dest)
	if err == nil {
		_ = c.Close()
		t.Fatalf("connected, and should not have")
	}
	if !errors.Is(err, class) {
		t.Errorf("%v\nis no %v", err, class)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%v\nlacks %q", err, w)
		}
	}
	return err
}

// algorithmsOf returns the algorithms negotiated with the server.
func algorithmsOf(c *Client) ssh.NegotiatedAlgorithms {
	return c.Conn.(ssh.AlgorithmsConnMetadata).Algorithms()
}
