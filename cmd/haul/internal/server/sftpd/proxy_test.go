package sftpd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/cmd/haul/internal/server/service"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/tcp"
	"github.com/haul-project/haul/users"
)

// A proxiedSFTP is an SFTP server and its log.
type proxiedSFTP struct {
	t   *testing.T
	at  net.Addr
	log servetest.Buffer
}

const proxiedPassword = "wonderland"

// startProxied serves SFTP until the test ends, for alice from anywhere and bob from
// 10.0.0.0/8.
func startProxied(t *testing.T, set func(*settings.Config)) *proxiedSFTP {
	t.Helper()
	hash, err := users.HashPassword([]byte(proxiedPassword))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "users")
	text := fmt.Sprintf("user alice\n  password %s\nuser bob\n  password %[1]s\n  from 10.0.0.0/8\n", hash.Encoded())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := settings.Default()
	cfg.Dirs, cfg.TFTP.Listen = []string{t.TempDir()}, nil
	cfg.SFTP.Listen, cfg.SFTP.Users, cfg.SFTP.HostKeys = []string{"127.0.0.1:0"}, file, settings.NoHostKeys
	set(&cfg)
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	p := &proxiedSFTP{t: t}
	s, err := New(&cfg, &service.Env{Log: slog.New(slog.NewTextHandler(&p.log, nil)), Out: &p.log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	if cfg.SFTP.UnixProxies {
		err = s.listenAtPath(ctx, filepath.Join(t.TempDir(), "sftp.sock"))
	} else {
		err = s.Listen(ctx, &handover.Inherited{})
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Announce()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
		s.Close()
	})
	p.at = s.at[0].Addr()
	return p
}

// listenAtPath is listen with a unix socket as systemd passes it.
func (s *Service) listenAtPath(ctx context.Context, path string) error {
	socket, err := tcp.Listen(ctx, "unix:"+path, tcp.Options{})
	if err != nil {
		return err
	}
	s.at = []*tcp.Socket{socket}
	s.expectProxies()
	return s.openKeys()
}

// login logs in on a connection that begins with a PROXY header.
func (p *proxiedSFTP) login(header, user, password string) (*ssh.Client, error) {
	p.t.Helper()
	nc, err := net.Dial(p.at.Network(), p.at.String())
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(servetest.Patience))
	if _, err := io.WriteString(nc, header); err != nil {
		p.t.Fatal(err)
	}
	c, channels, requests, err := ssh.NewClientConn(nc, p.at.String(), &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.Password(password)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), //nolint:gosec // a test's own server
	})
	if err != nil {
		return nil, err
	}
	return ssh.NewClient(c, channels, requests), nil
}

// logs waits until the log contains some words.
func (p *proxiedSFTP) logs(words ...string) {
	p.t.Helper()
	for _, w := range words {
		servetest.Eventually(p.t, "the log has "+w, func() bool { return strings.Contains(p.log.String(), w) })
	}
}

// headerOfItself is a PROXY header of version 2 for a proxy's own connection.
const headerOfItself = "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"

// headerFrom returns a PROXY header of version 1.
func headerFrom(client string) string {
	return fmt.Sprintf("PROXY TCP4 %s 127.0.0.1 4321 22\r\n", client)
}

// The client that a PROXY header names is used for --allow and --deny, for a user's networks, and
// in the log. A connection from a proxy without a valid header ends.
func TestSFTPProxy(t *testing.T) {
	p := startProxied(t, func(cfg *settings.Config) {
		cfg.SFTP.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
		cfg.Deny = []netip.Prefix{netip.MustParsePrefix("192.0.2.13/32")}
	})
	// Version 2: a signature, "PROXY", TCP over IPv4, 12 bytes of addresses and ports.
	// The address is 192.0.2.11:4321.
	const second = "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x0b\x7f\x00\x00\x01\x10\xe1\x00\x16"
	for _, test := range []struct {
		header, user string
		ok           bool
	}{
		{headerFrom("192.0.2.9"), "alice", true},
		{second, "alice", true},
		{headerOfItself, "alice", true},
		{headerFrom("10.1.2.3"), "bob", true},
		{headerFrom("192.0.2.10"), "bob", false},
		{headerFrom("192.0.2.13"), "alice", false},
		{"", "alice", false},
		{"PROXY TCP4 192.0.2.9 nowhere 4321 22\r\n", "alice", false},
		{"PROXY " + strings.Repeat("x", 200), "alice", false},
	} {
		c, err := p.login(test.header, test.user, proxiedPassword)
		if (err == nil) != test.ok {
			t.Errorf("%q: %s logs in: %v", test.header, test.user, err)
		}
		if c != nil {
			c.Close()
		}
	}
	p.logs(
		"result=accepted user=alice peer=192.0.2.9:4321", "result=accepted user=alice peer=192.0.2.11:4321", "result=accepted user=alice peer=127.0.0.1:",
		"result=accepted user=bob peer=10.1.2.3:4321", "result=refused user=bob peer=192.0.2.10:4321",
		`msg="sftp: connections turned away" cause="--allow and --deny" connections=1 last=192.0.2.13:4321`,
		`msg="sftp: connections failed" cause="no PROXY header" connections=1 last=127.0.0.1:`, `advice="the peer is in --sftp-proxy`,
		`cause="the PROXY header is not right"`, `advice="only proxies may be in --sftp-proxy`,
	)
}

// Behind a proxy, each client has its own limits and penalties.
func TestSFTPProxyLimits(t *testing.T) {
	p := startProxied(t, func(cfg *settings.Config) {
		cfg.SFTP.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
		cfg.SFTP.MaxConnsPerSource = 1
	})
	if _, err := p.login(headerFrom("192.0.2.1"), "alice", proxiedPassword); err != nil {
		t.Fatal(err)
	}
	if _, err := p.login(headerFrom("192.0.2.1"), "alice", proxiedPassword); err == nil {
		t.Error("a client has more connections than one may have")
	}
	if _, err := p.login(headerFrom("192.0.2.2"), "alice", proxiedPassword); err != nil {
		t.Errorf("another client: %v", err)
	}
	for range 2 {
		if _, err := p.login(headerOfItself, "alice", proxiedPassword); err != nil {
			t.Errorf("the proxy itself: %v", err)
		}
	}
	const guesser = "198.51.100.9"
	for !strings.Contains(p.log.String(), "locked out") {
		if _, err := p.login(headerFrom(guesser), "alice", "wrong"); err == nil {
			t.Fatal("logs in by a wrong password")
		}
	}
	p.logs(`msg="sftp: locked out" cause="wrong passwords" connections=1 last=` + guesser)
	if _, err := p.login(headerFrom(guesser), "alice", proxiedPassword); err == nil {
		t.Error("a client that guessed passwords logs in")
	}
	if _, err := p.login(headerFrom("203.0.113.1"), "alice", proxiedPassword); err != nil {
		t.Errorf("another client than the guesser: %v", err)
	}
}

// An unexpected PROXY header is logged. x/crypto ignores one of version 1, so all clients would
// count as the proxy.
func TestSFTPProxyUnknown(t *testing.T) {
	p := startProxied(t, func(*settings.Config) {})
	if _, err := p.login(headerFrom("192.0.2.9"), "alice", proxiedPassword); err != nil {
		t.Errorf("behind a header that is passed over: %v", err)
	}
	p.logs(`cause="a PROXY header" connections=1 last=127.0.0.1:`, `is not in --sftp-proxy: add it if you trust this proxy`)
}

// All peers that connect by a unix socket are proxies. If one names no client, there is no address.
func TestSFTPProxyUnixSocket(t *testing.T) {
	p := startProxied(t, func(cfg *settings.Config) { cfg.SFTP.UnixProxies = true })
	for header, ok := range map[string]bool{headerFrom("192.0.2.9"): true, headerOfItself: true, "": false} {
		if _, err := p.login(header, "alice", proxiedPassword); (err == nil) != ok {
			t.Errorf("%q: %v", header, err)
		}
	}
	p.logs("on the unix socket "+p.at.String()+", by sftp", "user=alice peer=192.0.2.9:4321", "user=alice peer=unix")
}

// Only systemd can provide a unix socket for proxies.
func TestSFTPProxyNeedsUnixSocket(t *testing.T) {
	t.Setenv("CONFIGURATION_DIRECTORY", t.TempDir()) // without a users file
	cfg := settings.Config{Dirs: []string{t.TempDir()}, SFTP: settings.SFTP{Listen: []string{"127.0.0.1:0"}, HostKeys: settings.NoHostKeys, UnixProxies: true}}
	s, err := New(&cfg, &service.Env{Log: slog.New(slog.DiscardHandler), Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Listen(t.Context(), &handover.Inherited{})
	if err == nil || !strings.Contains(err.Error(), "--sftp-proxy unix: there is no unix socket") {
		t.Errorf("without a unix socket: %v", err)
	}
}
