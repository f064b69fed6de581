package users_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/users"
	"golang.org/x/crypto/ssh"
)

// now is the time of all tests except those that run ssh-keygen.
var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// home is the address of peers unless a test sets another one.
const home = "192.0.2.1"

// newSigner makes an Ed25519 key.
func newSigner(t testing.TB) ssh.Signer {
	t.Helper()
	_, k, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return signerOf(t, k)
}

func signerOf(t testing.TB, key any) ssh.Signer {
	t.Helper()
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// rsaKey is one key for all tests, because making one takes a while.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

// fakeRSA returns a public key of any size, without a private key.
func fakeRSA(t testing.TB, bits int) ssh.PublicKey {
	t.Helper()
	n := new(big.Int).SetBit(big.NewInt(1), bits-1, 1)
	k, err := ssh.NewPublicKey(&rsa.PublicKey{N: n, E: 65537})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// fakeDSA returns a key in the form of a DSA key.
func fakeDSA(t testing.TB) ssh.PublicKey {
	t.Helper()
	one := big.NewInt(1)
	k, err := ssh.ParsePublicKey(ssh.Marshal(struct {
		Name       string
		P, Q, G, Y *big.Int
	}{"ssh-dss", new(big.Int).SetBit(one, 1023, 1), new(big.Int).SetBit(one, 159, 1), big.NewInt(2), big.NewInt(4)}))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A claimant claims to have a key, but cannot prove it.
type claimant struct {
	public ssh.PublicKey
	asked  *bool // set when a signature is requested; may be nil
}

func (c claimant) PublicKey() ssh.PublicKey { return c.public }

func (c claimant) Sign(io.Reader, []byte) (*ssh.Signature, error) {
	if c.asked != nil {
		*c.asked = true
	}
	return nil, errors.New("nobody has this key")
}

func (c claimant) SignWithAlgorithm(r io.Reader, data []byte, _ string) (*ssh.Signature, error) {
	return c.Sign(r, data)
}

// Algorithms returns an algorithm that the server accepts, so that the key is offered.
func (c claimant) Algorithms() []string {
	k := c.public
	if cert, ok := k.(*ssh.Certificate); ok {
		k = cert.Key
	}
	if k.Type() == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA256}
	}
	return []string{k.Type()}
}

// A securityKey is an authenticator that may have been touched; see OpenSSH's PROTOCOL.u2f.
type securityKey struct {
	private ed25519.PrivateKey
	public  ssh.PublicKey
	flags   byte // 1 for a touch, 4 for a PIN
}

func newSecurityKey(t testing.TB, flags byte) securityKey {
	t.Helper()
	pub, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	blob := ssh.Marshal(struct {
		Name        string
		Key         []byte
		Application string
	}{ssh.KeyAlgoSKED25519, pub, "ssh:"})
	public, err := ssh.ParsePublicKey(blob)
	if err != nil {
		t.Fatal(err)
	}
	return securityKey{private, public, flags}
}

func (s securityKey) PublicKey() ssh.PublicKey { return s.public }

func (s securityKey) Sign(_ io.Reader, data []byte) (*ssh.Signature, error) {
	application, message := sha256.Sum256([]byte("ssh:")), sha256.Sum256(data)
	rest := binary.BigEndian.AppendUint32([]byte{s.flags}, 7)
	signed := append(append(application[:], rest...), message[:]...)
	return &ssh.Signature{Format: ssh.KeyAlgoSKED25519, Blob: ed25519.Sign(s.private, signed), Rest: rest}, nil
}

// line returns a line of authorized_keys with a key and options.
func line(options string, k ssh.PublicKey) string {
	if options != "" {
		options += " "
	}
	return options + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k)))
}

// key returns the parsed form of such a line.
func key(t testing.TB, options string, k ssh.PublicKey) users.Key {
	t.Helper()
	parsed, err := users.ParseKey(line(options, k))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// hash hashes a password at the lowest cost.
func hash(t testing.TB, password string) users.Hash {
	t.Helper()
	return parseHash(t, cheap(t, password))
}

func parseHash(t testing.TB, s string) users.Hash {
	t.Helper()
	h, err := users.ParseHash(s)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func directory(t testing.TB, all ...users.User) *users.Directory {
	t.Helper()
	d, err := users.New(all...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// from is a connection that reports another remote address.
type from struct {
	net.Conn
	remote net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.remote }

var hostKey = sync.OnceValue(func() ssh.Signer {
	_, k, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err)
	}
	s, err := ssh.NewSignerFromKey(k)
	if err != nil {
		panic(err)
	}
	return s
})

// A world is a directory and a server that uses it.
type world struct {
	t       testing.TB
	d       *users.Directory
	options users.Options
	peer    net.Addr // nil means home
	events  []users.Event
}

func newWorld(t testing.TB, all ...users.User) *world {
	return &world{t: t, d: directory(t, all...)}
}

// handshake lets a client attempt to log in with any configuration, and returns the server's
// result.
func (w *world) handshake(user string, change func(*ssh.ClientConfig)) (*users.Login, error) {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	defer l.Close()
	client := &ssh.ClientConfig{User: user, HostKeyCallback: ssh.FixedHostKey(hostKey().PublicKey())}
	change(client)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return
		}
		defer c.Close()
		conn, chans, reqs, err := ssh.NewClientConn(c, "server", client)
		if err != nil {
			return
		}
		go ssh.DiscardRequests(reqs)
		for range chans { // until the server has seen enough
		}
		conn.Close()
	}()
	c, err := l.Accept()
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { c.Close(); <-done }()
	var config ssh.ServerConfig
	config.AddHostKey(hostKey())
	config.NoClientAuth = true // this must not take effect
	o := w.options
	if o.Now == nil {
		o.Now = func() time.Time { return now }
	}
	w.events = nil
	o.Audit = func(e users.Event) { w.events = append(w.events, e) }
	w.d.Configure(&config, o)
	remote := w.peer
	if remote == nil {
		remote = &net.TCPAddr{IP: net.ParseIP(home), Port: 50000}
	}
	conn, chans, reqs, err := ssh.NewServerConn(from{c, remote}, &config)
	if err != nil {
		return nil, err
	}
	go ssh.DiscardRequests(reqs)
	login, ok := users.LoginOf(conn.Permissions)
	conn.Close()
	for range chans {
	}
	if !ok {
		w.t.Error("logged in without a login")
		return nil, errors.New("no login")
	}
	return login, nil
}

// withKeys attempts to log in with keys, in the given order.
func (w *world) withKeys(user string, signers ...ssh.Signer) (*users.Login, error) {
	w.t.Helper()
	return w.handshake(user, func(c *ssh.ClientConfig) { c.Auth = []ssh.AuthMethod{ssh.PublicKeys(signers...)} })
}

func (w *world) withPassword(user, password string) (*users.Login, error) {
	w.t.Helper()
	return w.handshake(user, func(c *ssh.ClientConfig) { c.Auth = []ssh.AuthMethod{ssh.Password(password)} })
}

func (w *world) interactively(user, password string) (*users.Login, error) {
	w.t.Helper()
	return w.handshake(user, func(c *ssh.ClientConfig) {
		c.Auth = []ssh.AuthMethod{ssh.KeyboardInteractive(func(_, _ string, questions []string, _ []bool) ([]string, error) {
			return slicesOf(password, len(questions)), nil
		})}
	})
}

func slicesOf(s string, n int) (out []string) {
	for range n {
		out = append(out, s)
	}
	return out
}

// last returns the last event. Every attempt must have caused one.
func (w *world) last() users.Event {
	w.t.Helper()
	if len(w.events) == 0 {
		w.t.Fatal("the attempt is not in the audit log")
	}
	return w.events[len(w.events)-1]
}

// want checks the result of an attempt: "" for a login, or part of the reason.
func (w *world) want(l *users.Login, err error, reason string) {
	w.t.Helper()
	if reason == "" {
		if err != nil {
			w.t.Fatalf("want a login, got %v; events %+v", err, w.events)
		}
		if e := w.last(); e.Outcome != users.Accepted || e.Reason != "" || e.User != l.User.Name || e.Peer != l.Peer || e.Key != l.Key {
			w.t.Errorf("the event %+v does not fit the login %+v", e, l)
		}
		return
	}
	if err == nil {
		w.t.Fatalf("want a refusal because of %q, got the login %+v", reason, l)
	}
	if e := w.last(); e.Outcome != users.Refused || !strings.Contains(e.Reason, reason) {
		w.t.Errorf("want a refusal because of %q, got %+v", reason, e)
	}
}
