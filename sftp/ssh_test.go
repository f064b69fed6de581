package sftp

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/users"
)

// The server offers SFTP, and nothing else.
func TestOnlySFTP(t *testing.T) {
	w := newTestServer(t, nil)
	c := w.login("192.0.2.1")
	for _, kind := range []string{"direct-tcpip", "forwarded-tcpip", "x11", "auth-agent@openssh.com", "direct-streamlocal@openssh.com", "tun@openssh.com", ""} {
		_, _, err := c.OpenChannel(kind, nil)
		if e, ok := errors.AsType[*ssh.OpenChannelError](err); !ok || e.Reason != ssh.Prohibited {
			t.Errorf("a channel of type %q: %v", kind, err)
		}
	}
	for _, kind := range []string{"tcpip-forward", "streamlocal-forward@openssh.com", "keepalive@openssh.com", "no-more-sessions@openssh.com", ""} {
		ok, _, err := c.SendRequest(kind, true, nil)
		if ok || err != nil {
			t.Errorf("the request %q: %v, %v", kind, ok, err)
		}
	}
	ch, requests, err := c.OpenChannel("session", nil)
	if err != nil {
		t.Fatal(err)
	}
	go ssh.DiscardRequests(requests)
	name := func(s string) []byte { return ssh.Marshal(struct{ Name string }{s}) }
	for _, r := range []struct {
		kind    string
		payload []byte
	}{
		{"shell", nil}, {"exec", name("id")}, {"pty-req", nil}, {"env", nil}, {"x11-req", nil}, {"auth-agent-req@openssh.com", nil},
		{"subsystem", name("netconf")}, {"subsystem", nil}, {"subsystem", []byte("sftp")}, {"exec", name("sftp")}, {"", nil},
	} {
		if ok, err := ch.SendRequest(r.kind, true, r.payload); ok || err != nil {
			t.Errorf("%s %q: %v, %v", r.kind, r.payload, ok, err)
		}
	}
	for i, want := range []bool{true, false} {
		if ok, err := ch.SendRequest("subsystem", true, name("sftp")); ok != want || err != nil {
			t.Errorf("sftp, time %d: %v, %v", i, ok, err)
		}
	}
	p := &sftpPeer{t: t, rw: ch}
	p.begin()
	p.put("file", "x")
	p.wantFile("file", "x")
}

// A client receives the exit status of its session, as from OpenSSH's server.
func TestExitStatus(t *testing.T) {
	w := newTestServer(t, nil)
	c := w.login("192.0.2.1")
	for _, test := range []struct {
		send []byte
		want byte
	}{{nil, 0}, {wire.AppendRealpath(nil, 1, "."), 0}, {[]byte("nonsense"), 1}} {
		ch, requests, err := c.OpenChannel("session", nil)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := ch.SendRequest("subsystem", true, ssh.Marshal(struct{ Name string }{"sftp"})); !ok || err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, ch) }()
		if _, err := ch.Write(append(wire.AppendInit(nil, 3), test.send...)); err != nil {
			t.Fatal(err)
		}
		_ = ch.CloseWrite()
		status := -1
		for r := range requests {
			if r.Type == "exit-status" && len(r.Payload) == 4 {
				status = int(r.Payload[3])
			}
		}
		if status != int(test.want) {
			t.Errorf("after %q the exit status is %d, want %d", test.send, status, test.want)
		}
	}
}

// A connection has a limited number of sessions. A new one is possible when another has ended.
func TestChannels(t *testing.T) {
	w := newTestServer(t, func(_ *testServer, s *Server) { s.MaxChannels = 3 })
	c := w.login("192.0.2.1")
	var open []ssh.Channel
	for range 3 {
		open = append(open, w.subsystem(c))
	}
	_, _, err := c.OpenChannel("session", nil)
	if e, ok := errors.AsType[*ssh.OpenChannelError](err); !ok || e.Reason != ssh.ResourceShortage {
		t.Errorf("one more: %v", err)
	}
	_ = open[1].Close()
	if n := w.server.Counters().Sessions; n > 3 {
		t.Errorf("%d sessions", n)
	}
	// A session counts against the limit until the server has noticed its end.
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		ch, _, err := c.OpenChannel("session", nil)
		if err == nil {
			_ = ch.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	w.login("192.0.2.1") // the limit is for each connection
}

// The server first offers a key exchange that resists quantum computers, and offers no weak
// algorithm.
func TestAlgorithms(t *testing.T) {
	w := newTestServer(t, nil)
	raw := newRawSSH(w.connect("192.0.2.1"))
	if _, _, err := raw.hello(); err != nil {
		t.Fatal(err)
	}
	o := raw.offer
	if o.Kex[0] != ssh.KeyExchangeMLKEM768X25519 || !slices.Contains(o.Kex, "kex-strict-s-v00@openssh.com") {
		t.Errorf("key exchanges are %q", o.Kex)
	}
	if raw.version != "SSH-2.0-haul" {
		t.Errorf("it calls itself %q", raw.version)
	}
	for _, name := range slices.Concat(o.Kex, o.HostKeys, o.CiphersIn, o.CiphersOut, o.MACsIn, o.MACsOut, o.CompressionIn) {
		for _, weak := range []string{"sha1", "md5", "cbc", "arcfour", "3des", "group1-", "dss", "zlib", "ssh-rsa", "-96"} {
			if strings.Contains(name, weak) {
				t.Errorf("%s is offered", name)
			}
		}
	}
	for _, name := range signatures {
		if name == "ssh-rsa" || name == "ssh-dss" {
			t.Errorf("%s signs logins", name)
		}
	}

	c := w.login("192.0.2.1")
	got := c.Conn.(ssh.AlgorithmsConnMetadata).Algorithms()
	if got.KeyExchange != ssh.KeyExchangeMLKEM768X25519 || got.Read.Cipher != ssh.CipherAES128GCM {
		t.Errorf("agreed on %+v", got)
	}
	weak := map[string]func(*ssh.ClientConfig){
		"key exchange": func(c *ssh.ClientConfig) { c.KeyExchanges = []string{ssh.InsecureKeyExchangeDH14SHA1} },
		"cipher":       func(c *ssh.ClientConfig) { c.Ciphers = []string{ssh.InsecureCipherAES128CBC} },
		"MAC": func(c *ssh.ClientConfig) {
			c.Ciphers, c.MACs = []string{ssh.CipherAES128CTR}, []string{ssh.HMACSHA1}
		},
	}
	for what, set := range weak {
		config := w.clientConfig()
		set(config)
		if _, err := w.dial(w.connect("192.0.2.9"), config); err == nil {
			t.Errorf("a weak %s is accepted", what)
		}
	}
	// A failed negotiation does not count as a failed login.
	w.login("192.0.2.9")
}

// The host's RSA key may sign with SHA-2, with or without a certificate. A client that wants
// SHA-1 cannot log in, even if the key would permit it.
func TestHostKeyOfRSA(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	limited, err := ssh.NewSignerWithAlgorithms(plain.(ssh.AlgorithmSigner), []string{ssh.KeyAlgoRSASHA256})
	if err != nil {
		t.Fatal(err)
	}
	certified := func(w *testServer, s ssh.Signer) ssh.Signer {
		cert := &ssh.Certificate{Key: s.PublicKey(), CertType: ssh.HostCert, ValidBefore: ssh.CertTimeInfinity}
		if err := cert.SignCert(rand.Reader, w.key); err != nil {
			t.Fatal(err)
		}
		s, err := ssh.NewCertSigner(cert, s)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	tests := []struct {
		name      string
		signer    ssh.Signer
		cert      bool
		algorithm string
		fine      bool
	}{
		{"sha512", plain, false, ssh.KeyAlgoRSASHA512, true},
		{"sha1", plain, false, ssh.KeyAlgoRSA, false},
		{"limited", limited, false, ssh.KeyAlgoRSASHA256, true},
		{"limited, sha1", limited, false, ssh.KeyAlgoRSA, false},
		{"certificate, sha512", plain, true, ssh.CertAlgoRSASHA512v01, true},
		{"certificate, sha1", plain, true, ssh.CertAlgoRSAv01, false},
		{"limited certificate", limited, true, ssh.CertAlgoRSASHA256v01, true},
		{"limited certificate, sha1", limited, true, ssh.CertAlgoRSAv01, false},
	}
	for _, test := range tests {
		var banners atomic.Int64
		w := newTestServer(t, func(w *testServer, s *Server) {
			s.SSH = func(context.Context, net.Conn) (*ssh.ServerConfig, error) {
				c := &ssh.ServerConfig{
					PasswordCallback: func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) { return nil, nil },
					BannerCallback: func(ssh.ConnMetadata) string {
						banners.Add(1)
						return "welcome"
					},
				}
				if test.cert {
					c.AddHostKey(certified(w, test.signer))
				} else {
					c.AddHostKey(test.signer)
				}
				return c, nil
			}
		})
		config := w.clientConfig()
		config.HostKeyAlgorithms = []string{test.algorithm}
		config.HostKeyCallback = ssh.InsecureIgnoreHostKey()
		c, err := w.dial(w.connect("192.0.2.1"), config)
		if test.fine && err != nil || (banners.Load() == 1) != test.fine {
			t.Errorf("%s: %v, %d banners", test.name, err, banners.Load())
		}
		if test.fine && err == nil {
			w.sftp(c).put("file", "x")
			continue
		}
		if e := w.last(1); e.Account != nil || e.Err == nil {
			t.Errorf("%s: ended by %v", test.name, e.Err)
		}
	}
}

// Algorithms in the configuration are kept, and the configuration is not changed.
func TestConfiguration(t *testing.T) {
	logged := atomic.Int64{}
	given := &ssh.ServerConfig{ServerVersion: "SSH-2.0-mine", AuthLogCallback: func(ssh.ConnMetadata, string, error) { logged.Add(1) }}
	given.Ciphers = []string{ssh.CipherAES256CTR}
	w := newTestServer(t, func(w *testServer, s *Server) {
		given.PasswordCallback = w.config().PasswordCallback
		given.AddHostKey(w.key)
		s.SSH = func(context.Context, net.Conn) (*ssh.ServerConfig, error) { return given, nil }
	})
	var wg sync.WaitGroup
	for range 4 { // four connections share the configuration
		wg.Go(func() {
			c := w.login("192.0.2.1")
			if got := c.Conn.(ssh.AlgorithmsConnMetadata).Algorithms(); got.Read.Cipher != ssh.CipherAES256CTR {
				t.Errorf("agreed on %+v", got)
			}
			if string(c.ServerVersion()) != "SSH-2.0-mine" {
				t.Errorf("it calls itself %s", c.ServerVersion())
			}
		})
	}
	wg.Wait()
	if logged.Load() < 8 { // each client tries the method none, and then password
		t.Errorf("the callback was called %d times", logged.Load())
	}
	if given.KeyExchanges != nil || given.PublicKeyAuthAlgorithms != nil {
		t.Error("the configuration was changed")
	}
}

// Users of package users get their own account, according to the key that they proved to have
// (CVE-2024-45337), and restrictions of a key also apply with a second factor (CVE-2026-39828).
func TestUsers(t *testing.T) {
	w := newTestServer(t, nil)
	line := func(k ssh.Signer) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k.PublicKey()))) }
	var keys []ssh.Signer
	for range 4 {
		keys = append(keys, newTestServer(t, nil).key)
	}
	parse := func(s string) users.Key {
		k, err := users.ParseKey(s)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	hash, err := users.HashPassword([]byte(testPassword))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := users.New(
		users.User{Name: "alice", Keys: []users.Key{parse(line(keys[0])), parse(`command="internal-sftp -R -d /sub" ` + line(keys[1]))}},
		users.User{Name: "bob", Password: hash, Access: users.UploadOnly},
		users.User{Name: "carol", Password: hash, Require: users.KeyAndPassword, Keys: []users.Key{parse(`command="internal-sftp -R" ` + line(keys[2]))}},
		users.User{Name: "nobody"},
	)
	if err != nil {
		t.Fatal(err)
	}
	w.server.SSH = func(context.Context, net.Conn) (*ssh.ServerConfig, error) {
		c := &ssh.ServerConfig{}
		c.AddHostKey(w.key)
		dir.Configure(c, users.Options{})
		return c, nil
	}
	w.server.Login = func(_ context.Context, c *ssh.ServerConn) (*Account, error) {
		l, ok := users.LoginOf(c.Permissions)
		if !ok {
			return nil, errors.New("no user has logged in")
		}
		return &Account{User: l.User.Name, Tree: w.tree, Dir: l.Dir, Access: l.Access, Rate: l.User.Limit}, nil
	}
	tests := []struct {
		user string
		auth []ssh.AuthMethod
		want string // "" if the login fails
		home string
	}{
		{"alice", []ssh.AuthMethod{ssh.PublicKeys(keys[0])}, "full", "/"},
		{"alice", []ssh.AuthMethod{ssh.PublicKeys(keys[1])}, "read-only", "/sub"},
		{"alice", []ssh.AuthMethod{ssh.PublicKeys(keys[3], keys[0])}, "full", "/"},
		{"alice", []ssh.AuthMethod{ssh.PublicKeys(keys[3])}, "", ""},
		{"bob", []ssh.AuthMethod{ssh.PublicKeys(keys[0])}, "", ""},
		{"bob", []ssh.AuthMethod{ssh.Password(testPassword)}, "upload-only", "/"},
		{"bob", []ssh.AuthMethod{ssh.Password("")}, "", ""},
		{"bob", nil, "", ""},
		{"nobody", []ssh.AuthMethod{ssh.Password("")}, "", ""},
		{"carol", []ssh.AuthMethod{ssh.PublicKeys(keys[2])}, "", ""},
		{"carol", []ssh.AuthMethod{ssh.Password(testPassword)}, "", ""},
		{"carol", []ssh.AuthMethod{ssh.PublicKeys(keys[2]), ssh.Password(testPassword)}, "read-only", "/"},
	}
	full := w.tree
	if err := full.Mkdir(t.Context(), "sub", 0); err != nil {
		t.Fatal(err)
	}
	for i, test := range tests {
		config := w.clientConfig()
		config.User, config.Auth = test.user, test.auth
		c, err := w.dial(w.connect(fmt.Sprintf("198.51.%d.1", i)), config)
		if (err == nil) != (test.want != "") {
			t.Errorf("login %d of %s: %v", i, test.user, err)
		}
		if err != nil {
			continue
		}
		p := w.sftp(c)
		if got := p.name(wire.AppendRealpath(nil, p.n(), ".")); got != test.home {
			t.Errorf("login %d of %s begins in %s", i, test.user, got)
		}
		_, writes := p.tryOpen(fmt.Sprint("/new", i), openAnew, wire.Attrs{})
		_, reads := p.tryOpen("/sub", wire.OpenRead, wire.Attrs{})
		got := "full"
		switch {
		case writes == wire.PermissionDenied:
			got = "read-only"
		case reads == wire.PermissionDenied:
			got = "upload-only"
		}
		if got != test.want {
			t.Errorf("login %d of %s: access is %s (%v, %v), want %s", i, test.user, got, writes, reads, test.want)
		}
	}

	// The client asks about one key, and logs in with another one.
	raw := newRawSSH(w.connect("203.0.113.1"))
	if err := raw.loginByKey("alice", keys[0].PublicKey(), keys[1]); err != nil {
		t.Fatal(err)
	}
	p := raw.session(t)
	if got := p.name(wire.AppendRealpath(nil, p.n(), ".")); got != "/sub" {
		t.Errorf("begins in %s, which is the other key's", got)
	}
	if _, status := p.tryOpen("/raw", openAnew, wire.Attrs{}); status != wire.PermissionDenied {
		t.Errorf("may write, as the other key may: %v", status)
	}
	raw = newRawSSH(w.connect("203.0.113.2"))
	if err := raw.loginByKey("alice", keys[0].PublicKey(), keys[3]); err == nil {
		t.Error("a key that is nobody's logs in after one that is")
	}
}

// A connection that is cut at any point leaves nothing behind.
func TestCutAnywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestServer(t, func(w *testServer, s *Server) {
			s.MaxHandshakes, s.MaxHandshakesPerSource = 10_000, 10_000
			s.Login = func(context.Context, *ssh.ServerConn) (*Account, error) {
				return &Account{Tree: w.tree, Hidden: true}, nil
			}
		})
		run := func(limit int64) (total int64, whole bool) {
			nc := w.connect(fmt.Sprintf("198.51.%d.%d", limit>>8&255, limit&255))
			cut := &cutWriter{wireEnd: nc, left: limit}
			c, err := w.dial(cut, w.clientConfig())
			if err != nil {
				return cut.sent, false
			}
			defer c.Close()
			ch, requests, err := c.OpenChannel("session", nil)
			if err != nil {
				return cut.sent, false
			}
			go ssh.DiscardRequests(requests)
			if ok, _ := ch.SendRequest("subsystem", true, ssh.Marshal(struct{ Name string }{"sftp"})); !ok {
				return cut.sent, false
			}
			p := &sftpPeer{t: t, rw: ch}
			b := wire.AppendInit(nil, 3)
			b = wire.AppendOpen(b, 1, "file", openAnew, wire.Attrs{})
			b = wire.AppendOpendir(b, 2, "/")
			if _, err := ch.Write(b); err != nil {
				return cut.sent, false
			}
			var h string
			for range 3 {
				r, err := p.tryReply()
				if err != nil {
					return cut.sent, false
				}
				if r.Type == wire.TypeHandle && h == "" {
					h = string(r.Handle)
				}
			}
			b = wire.AppendWrite(nil, 3, h, 0, []byte("content"))
			b = wire.AppendClose(b, 4, h)
			if _, err := ch.Write(b); err != nil {
				return cut.sent, false
			}
			for range 2 {
				if _, err := p.tryReply(); err != nil {
					return cut.sent, false
				}
			}
			return cut.sent, true
		}
		total, whole := run(1 << 40)
		if !whole {
			t.Fatal("nothing was cut, and it failed")
		}
		step := max(1, total/150)
		for limit := int64(0); limit < total; limit += step {
			if _, whole := run(limit); whole {
				t.Errorf("cut after %d of %d bytes, and it was whole", limit, total)
			}
			synctest.Wait()
		}
		w.end()
		if n := w.server.shared.counts.panics.Load(); n != 0 {
			t.Errorf("%d panics", n)
		}
	})
}

// A cutWriter is a connection that breaks after a number of bytes were sent.
type cutWriter struct {
	*wireEnd
	mu         sync.Mutex
	left, sent int64
}

func (c *cutWriter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(int64(len(p)), c.left)
	c.left -= n
	c.sent += n
	if n > 0 {
		if _, err := c.wireEnd.Write(p[:n]); err != nil {
			return 0, err
		}
	}
	if n < int64(len(p)) {
		c.wireEnd.Close()
		return int(n), io.ErrClosedPipe
	}
	return int(n), nil
}
