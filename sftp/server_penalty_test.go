package sftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/penalty"
	"golang.org/x/crypto/ssh"
)

// Who guesses at passwords, or holds connections without a login, is kept out
// before anything is read from him; others are not.
func TestServerPenalties(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turned []string
		w := newServerWorld(t, func(_ *serverWorld, s *Server) {
			s.TurnedAway = func(from net.Addr, why error) { turned = append(turned, fmt.Sprint(from, " ", why)) }
			s.Exempt = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
		})
		guess := func(from string) error {
			config := w.clientConfig()
			config.Auth = []ssh.AuthMethod{ssh.Password("wrong")}
			_, err := w.dial(w.connect(from), config)
			synctest.Wait()
			return err
		}
		for range 3 { // 5 s each; 15 s are enough
			if err := guess("192.0.2.1"); err == nil {
				t.Fatal("a wrong password logs in")
			}
		}
		if len(turned) != 0 {
			t.Fatalf("turned away: %q", turned)
		}
		nc := w.connect("192.0.2.1")
		if b, err := io.ReadAll(nc); string(b) != "Not allowed at this time\r\n" || err != nil {
			t.Errorf("who is turned away reads %q, %v", b, err)
		}
		if len(turned) != 1 || !strings.Contains(turned[0], string(penalty.Penalized)) || !strings.HasPrefix(turned[0], "192.0.2.1:") {
			t.Errorf("turned away: %q", turned)
		}
		w.login("192.0.2.200") // the neighbour
		time.Sleep(20 * time.Second)
		w.login("192.0.2.1")
		for range 20 {
			_ = guess("203.0.113.1")
		}
		w.login("203.0.113.1")

		// An agent full of keys that do not fit is no guessing.
		var keys []ssh.Signer
		for range 5 {
			keys = append(keys, newServerWorld(t, nil).key)
		}
		old := w.server.SSH
		w.server.SSH = func(ctx context.Context, nc net.Conn) (*ssh.ServerConfig, error) {
			c, err := old(ctx, nc)
			c.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, errors.New("no") }
			return c, err
		}
		for range 10 {
			config := w.clientConfig()
			config.Auth = []ssh.AuthMethod{ssh.PublicKeys(keys...), ssh.Password(serverPassword)}
			c, err := w.dial(w.connect("192.0.2.50"), config)
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
			synctest.Wait()
		}
		// Each of these is one offence, be it that nobody speaks SSH.
		for what, offend := range map[string]func(from string){
			"192.0.2.60": func(from string) {
				config := w.clientConfig()
				config.Auth = []ssh.AuthMethod{ssh.PublicKeys(keys...)}
				_, _ = w.dial(w.connect(from), config)
			},
			"192.0.2.61": func(from string) { // far too long to be a version
				nc := w.connect(from)
				_, _ = io.WriteString(nc, "GET / HTTP/1.1 "+strings.Repeat("x", 1000)+"\n")
				_, _ = io.Copy(io.Discard, nc)
			},
		} {
			turned = nil
			for range 3 {
				offend(what)
				synctest.Wait()
			}
			if len(turned) > 0 {
				t.Errorf("%s: turned away at once: %q", what, turned)
			}
			if offend(what); len(turned) != 1 {
				t.Errorf("%s: turned away: %q", what, turned)
			}
		}
	})
}

// There are bounds on how many there are, of all together and of one source.
func TestServerConnectionLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServerWorld(t, func(_ *serverWorld, s *Server) {
			s.MaxConns, s.MaxConnsPerSource, s.MaxHandshakes, s.MaxHandshakesPerSource = 6, 3, 4, 2
		})
		in := func(nc net.Conn) bool {
			synctest.Wait()
			n := w.server.counts.turnedAway.Swap(0)
			return n == 0
		}
		for i, want := range []bool{true, true, false} {
			if got := in(w.connect("192.0.2.1")); got != want {
				t.Errorf("handshake %d of a source: %v", i, got)
			}
		}
		if !in(w.connect("198.51.100.1")) || !in(w.connect("203.0.113.1")) || in(w.connect("203.0.114.1")) {
			t.Error("handshakes of all")
		}
		time.Sleep(DefaultLoginGrace + 2*time.Second)
		for range 3 {
			w.login("198.18.0.1")
		}
		if in(w.connect("198.18.0.1")) {
			t.Error("a source has too many connections")
		}
		for i := range 3 {
			w.login(fmt.Sprintf("198.18.%d.1", i+1))
		}
		if in(w.connect("198.18.9.1")) {
			t.Error("there are too many connections")
		}
		if c := w.server.Counters(); c.Conns != 6 || c.Handshakes != 0 || c.Logins != 6 {
			t.Errorf("counted: %+v", c)
		}
	})
}

// A login that the server's end interrupts is held against nobody.
func TestServerEndIsNoOffence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServerWorld(t, nil)
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			client, server := serverWires("192.0.2.1")
			w.conns.Go(func() { w.server.ServeConn(ctx, server) })
			s := newServerRawSSH(client)
			if err := serverRawKeys(s); err != nil {
				t.Fatal(err)
			}
			cancel()
			synctest.Wait()
		}
		w.login("192.0.2.1")
	})
}
