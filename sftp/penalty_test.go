package sftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/internal/penalty"
)

// A source that guesses passwords may use no password for a while, by any method, but can still log
// in with a key. Other sources are not affected.
func TestPasswordLockout(t *testing.T) {
	for _, method := range []string{"password", "keyboard-interactive"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testPasswordLockout(t, method) })
		})
	}
}

func testPasswordLockout(t *testing.T, method string) {
	var turned, locked []string
	w := newTestServer(t, func(_ *testServer, s *Server) {
		s.TurnedAway = func(from net.Addr, why error) { turned = append(turned, fmt.Sprint(from, " ", why)) }
		s.LockedOut = func(from net.Addr, l Lockout) {
			locked = append(locked, fmt.Sprint(l.Network, " ", l.For, " ", l.Passwords))
		}
		s.Exempt = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	})
	mine := newTestServer(t, nil).key
	inner := w.server.SSH
	checked := 0
	w.server.SSH = func(ctx context.Context, nc net.Conn) (*ssh.ServerConfig, error) {
		c, err := inner(ctx, nc)
		check := c.PasswordCallback
		c.PasswordCallback = func(m ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			checked++
			return check(m, password)
		}
		c.KeyboardInteractiveCallback = func(m ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			answers, err := ask("", "", []string{"Password: "}, []bool{false})
			if err != nil {
				return nil, err
			}
			return c.PasswordCallback(m, []byte(answers[0]))
		}
		c.PublicKeyCallback = func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if string(key.Marshal()) != string(mine.PublicKey().Marshal()) {
				return nil, errors.New("not that key")
			}
			return &ssh.Permissions{}, nil
		}
		return c, err
	}
	banner := ""
	try := func(from string, auth ...ssh.AuthMethod) error {
		config := w.clientConfig()
		config.Auth = auth
		config.BannerCallback = func(text string) error { banner = text; return nil }
		c, err := w.dial(w.connect(from), config)
		synctest.Wait()
		if err == nil {
			c.Close()
			synctest.Wait()
		}
		return err
	}
	password := func(word string, times int) ssh.AuthMethod {
		if method == "password" {
			return ssh.RetryableAuthMethod(ssh.Password(word), times)
		}
		return ssh.RetryableAuthMethod(ssh.KeyboardInteractive(func(string, string, []string, []bool) ([]string, error) {
			return []string{word}, nil
		}), times)
	}
	// On one connection, the fourth password is not checked, even if it is right.
	if err := try("192.0.2.1", password("wrong", 6)); err == nil {
		t.Fatal("a wrong password logs in")
	}
	if checked != 3 {
		t.Errorf("%d passwords were checked, want 3", checked)
	}
	if want := []string{"192.0.2.1/32 15s true"}; !slices.Equal(locked, want) {
		t.Errorf("locked out: %q, want %q", locked, want)
	}
	if err := try("192.0.2.1", password(testPassword, 1)); err == nil || checked != 3 {
		t.Errorf("the right password: %v, with %d checked", err, checked)
	}
	if !strings.Contains(banner, "15s") {
		t.Errorf("the client is shown %q", banner)
	}
	if err := try("192.0.2.1", ssh.PublicKeys(mine)); err != nil {
		t.Error("a key that is right:", err)
	}
	if err := try("192.0.2.200", password(testPassword, 1)); err != nil {
		t.Error("the neighbour:", err)
	}
	time.Sleep(20 * time.Second)
	if err := try("192.0.2.1", password(testPassword, 1)); err != nil {
		t.Error("when it is over:", err)
	}
	for range 20 {
		_ = try("203.0.113.1", password("wrong", 1))
	}
	if err := try("203.0.113.1", password(testPassword, 1)); err != nil {
		t.Error("an exempt network:", err)
	}
	if len(turned) > 0 {
		t.Errorf("turned away: %q", turned)
	}
}

// A client that is asked for a password and does not answer has not guessed.
func TestUnansweredQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestServer(t, nil)
		inner := w.server.SSH
		w.server.SSH = func(ctx context.Context, nc net.Conn) (*ssh.ServerConfig, error) {
			c, err := inner(ctx, nc)
			c.KeyboardInteractiveCallback = func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
				_, err := ask("", "", []string{"Password: "}, []bool{false})
				return nil, err
			}
			return c, err
		}
		for range 5 {
			config := w.clientConfig()
			config.Auth = []ssh.AuthMethod{ssh.KeyboardInteractive(func(string, string, []string, []bool) ([]string, error) {
				return nil, errors.New("there is no terminal")
			})}
			if _, err := w.dial(w.connect("192.0.2.1"), config); err == nil {
				t.Fatal("no answer logs in")
			}
			synctest.Wait()
		}
		c, err := w.dial(w.connect("192.0.2.1"), w.clientConfig())
		if err != nil {
			t.Fatal("the right password:", err)
		}
		c.Close()
	})
}

// Guessing on many connections at once gets hardly more passwords checked.
func TestGuessesAtOnce(t *testing.T) {
	for _, method := range []string{"password", "keyboard-interactive"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testGuessesAtOnce(t, method) })
		})
	}
}

func testGuessesAtOnce(t *testing.T, method string) {
	w := newTestServer(t, nil)
	inner := w.server.SSH
	var checked atomic.Int64
	w.server.SSH = func(ctx context.Context, nc net.Conn) (*ssh.ServerConfig, error) {
		c, err := inner(ctx, nc)
		check := func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) {
			checked.Add(1)
			time.Sleep(time.Millisecond)
			return nil, errors.New("wrong password")
		}
		c.PasswordCallback = check
		c.KeyboardInteractiveCallback = func(m ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			answers, err := ask("", "", []string{"Password: "}, []bool{false})
			if err != nil {
				return nil, err
			}
			return check(m, []byte(answers[0]))
		}
		return c, err
	}
	var all sync.WaitGroup
	for range 8 {
		config := w.clientConfig()
		config.Auth = []ssh.AuthMethod{ssh.Password("wrong")}
		if method != "password" {
			config.Auth = []ssh.AuthMethod{ssh.KeyboardInteractive(func(string, string, []string, []bool) ([]string, error) {
				time.Sleep(time.Second) // all are asked before any has answered
				return []string{"wrong"}, nil
			})}
		}
		nc := w.connect("192.0.2.1")
		all.Go(func() {
			if c, err := w.dial(nc, config); err == nil {
				c.Close()
				t.Error("a wrong password logs in")
			}
		})
	}
	all.Wait()
	if n := checked.Load(); n < 3 || n > 5 {
		t.Errorf("of 8 passwords %d are checked", n)
	}
}

// A few connections that end before their login are free, whatever the reason. A flood of them is
// refused before anything is read.
func TestPenalties(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turned []string
		w := newTestServer(t, func(_ *testServer, s *Server) {
			s.TurnedAway = func(from net.Addr, why error) { turned = append(turned, fmt.Sprint(from, " ", why)) }
		})
		var keys []ssh.Signer
		for range 5 {
			keys = append(keys, newTestServer(t, nil).key)
		}
		old := w.server.SSH
		w.server.SSH = func(ctx context.Context, nc net.Conn) (*ssh.ServerConfig, error) {
			c, err := old(ctx, nc)
			c.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, errors.New("no") }
			return c, err
		}
		// An agent with many wrong keys does not count as guessing.
		for range 10 {
			config := w.clientConfig()
			config.Auth = []ssh.AuthMethod{ssh.PublicKeys(keys...), ssh.Password(testPassword)}
			c, err := w.dial(w.connect("192.0.2.50"), config)
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
			synctest.Wait()
		}
		for from, end := range map[string]func(from string){
			"192.0.2.60": func(from string) { // wrong keys
				config := w.clientConfig()
				config.Auth = []ssh.AuthMethod{ssh.PublicKeys(keys...)}
				_, _ = w.dial(w.connect(from), config)
			},
			"192.0.2.61": func(from string) { // not SSH, and far too long for a version
				nc := w.connect(from)
				_, _ = io.WriteString(nc, "GET / HTTP/1.1 "+strings.Repeat("x", 1000)+"\n")
				_, _ = io.Copy(io.Discard, nc)
			},
			"192.0.2.62": func(from string) { w.connect(from).Close() },
			"192.0.2.63": func(from string) { // a host key that the client does not know
				config := w.clientConfig()
				config.HostKeyCallback = ssh.FixedHostKey(keys[0].PublicKey())
				_, _ = w.dial(w.connect(from), config)
			},
			"192.0.2.64": func(from string) { // a client that reports that it does not know the host key
				s := newRawSSH(w.connect(from))
				if err := rawKeys(s); err != nil {
					t.Error(err)
				}
				_ = s.write(append([]byte{1}, ssh.Marshal(struct {
					Reason         uint32
					Text, Language string
				}{9, "host key not verifiable", ""})...))
				s.nc.Close()
			},
		} {
			turned = nil
			for range 15 { // the penalty is a second for each; a source is refused only after more than 15 s
				end(from)
				synctest.Wait()
			}
			if len(turned) > 0 {
				t.Errorf("%s: turned away at once: %q", from, turned)
			}
			nc := w.connect(from)
			if b, err := io.ReadAll(nc); string(b) != "Not allowed at this time\r\n" || err != nil {
				t.Errorf("who is turned away reads %q, %v", b, err)
			}
			if len(turned) != 1 || !strings.Contains(turned[0], string(penalty.Penalized)) || !strings.HasPrefix(turned[0], from+":") {
				t.Errorf("%s: turned away: %q", from, turned)
			}
			time.Sleep(time.Minute) // the network around the source has a penalty too
		}
	})
}

// There are limits for all connections, and for the connections of one source. Connections beyond a
// limit wait for their turn to log in.
func TestConnectionLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestServer(t, func(_ *testServer, s *Server) {
			s.MaxConns, s.MaxConnsPerSource, s.MaxHandshakes, s.MaxHandshakesPerSource = 6, 3, 4, 2
		})
		counted := func(conns, handshakes, turnedAway int) {
			t.Helper()
			synctest.Wait() // a server may see a login after its client does
			if c := w.server.Counters(); c.Conns != conns || c.Handshakes != handshakes || c.TurnedAway != int64(turnedAway) {
				t.Errorf("counted: %+v, want %d connections, %d handshakes, %d turned away", c, conns, handshakes, turnedAway)
			}
		}
		var waiting []net.Conn
		for i := range 3 {
			waiting = append(waiting, w.connect("192.0.2.1"))
			counted(i+1, min(i+1, 2), 0)
		}
		w.connect("192.0.2.1")
		counted(3, 2, 1) // a source has reached its limit, including waiting connections
		waiting = append(waiting, w.connect("198.51.100.1"), w.connect("203.0.113.1"), w.connect("203.0.114.1"))
		counted(6, 4, 1)
		w.connect("203.0.115.1")
		counted(6, 4, 2)
		for _, nc := range waiting {
			nc.Close()
		}
		counted(0, 0, 2)
		for range 3 {
			w.login("198.18.0.1")
		}
		counted(3, 0, 2)
		w.connect("198.18.0.1")
		counted(3, 0, 3)
		for i := range 3 {
			w.login(fmt.Sprintf("198.18.%d.1", i+1))
		}
		counted(6, 0, 3)
		w.connect("198.18.9.1")
		counted(6, 0, 4)
		if c := w.server.Counters(); c.Logins != 6 {
			t.Errorf("counted: %+v", c)
		}
	})
}

// Many more simultaneous logins than a source may have all succeed, one after the other.
func TestLoginsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestServer(t, nil)
		var logins sync.WaitGroup
		for range 5 * penalty.DefaultMaxHandshakesPerSource {
			logins.Go(func() {
				if _, err := w.dial(w.connect("192.0.2.1"), w.clientConfig()); err != nil {
					t.Error(err)
				}
			})
		}
		logins.Wait()
	})
}

// A login that is interrupted because the server stops does not count as a failure.
func TestEndIsNoOffence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestServer(t, nil)
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			client, server := newWires("192.0.2.1")
			w.conns.Go(func() { w.server.ServeConn(ctx, server) })
			s := newRawSSH(client)
			if err := rawKeys(s); err != nil {
				t.Fatal(err)
			}
			cancel()
			synctest.Wait()
		}
		w.login("192.0.2.1")
	})
}
