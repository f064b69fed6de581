package openssh

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

func TestJump(t *testing.T) {
	first, second, last := startServer(t, takesPassword("one")), startServer(t, openServer()), startServer(t, takesPassword("three"))
	dest, middle, entry := last.dest(t), second.dest(t), first.dest(t)
	middle.Jump, dest.Jump = &entry, &middle
	p := &script{passwords: []string{"one", "three"}}
	c := dialOK(t, &Dialer{Prompter: p}, dest)
	if asked := p.log(); len(asked) != 2 || !strings.Contains(asked[0], entry.name()) || !strings.Contains(asked[1], dest.name()) {
		t.Errorf("asked %q", asked)
	}
	if got := append(first.asked(), second.asked()...); len(got) != 2 || got[0] != middle.address() || got[1] != dest.address() {
		t.Errorf("went through %q", got)
	}
	if got := algorithmsOf(c).KeyExchange; got != ssh.KeyExchangeMLKEM768X25519 {
		t.Errorf("keys were exchanged by %s", got)
	}

	// The error names the host.
	entry.UserKnownHostsFiles = nil
	dialFails(t, &Dialer{Prompter: p}, dest, ErrHostKey, entry.name())
	entry = first.dest(t)
	dest.UserKnownHostsFiles = nil
	d := &Dialer{Prompter: &script{passwords: []string{"one", "three"}}}
	dialFails(t, d, dest, ErrHostKey, dest.name())
	dest = Destination{Host: "127.0.0.1", Port: 1, Jump: &entry}
	if _, err := d.Dial(withTimeout(t), dest); err == nil || !strings.Contains(err.Error(), "from "+entry.name()) || !strings.Contains(err.Error(), `cannot:\x1b[31m`) {
		t.Errorf("got %v", err)
	}
}

// Behind another jump host, or under another name, the same address may be another machine, which
// must not get the first one's password.
func TestPasswordsByTheWholeWay(t *testing.T) {
	first, second, last := startServer(t, openServer()), startServer(t, openServer()), startServer(t, takesPassword("right"))
	direct := last.dest(t)
	a, b := first.dest(t), second.dest(t)
	known := direct.UserKnownHostsFiles[0]
	if _, err := addKnown(known, "alias", last.keys[0].PublicKey(), false); err != nil {
		t.Fatal(err)
	}
	ways := map[string]func(*Destination){
		"directly":        func(*Destination) {},
		"from one":        func(d *Destination) { d.Jump = &a },
		"from another":    func(d *Destination) { d.Jump = &b },
		"from both":       func(d *Destination) { c := b; c.Jump = &a; d.Jump = &c },
		"by another name": func(d *Destination) { d.HostKeyAlias = "alias" },
	}
	p := &script{}
	d := &Dialer{Prompter: p}
	for name, change := range ways {
		dest := direct
		change(&dest)
		p.passwords = []string{"right"}
		dialOK(t, d, dest)
		if n := len(p.log()); n != 1 {
			t.Errorf("%s: asked %d times, want once", name, n)
		}
		dialOK(t, d, dest)
		if n := len(p.log()); n != 0 {
			t.Errorf("%s, again: asked %d times", name, n)
		}
	}
}

// A jump host that does not connect delays nothing beyond the limit.
func TestSilentJump(t *testing.T) {
	s := startServer(t, openServer())
	quiet, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer quiet.Close()
	entry := s.dest(t)
	dest := Destination{User: "bob", Host: "127.0.0.1", Port: quiet.Addr().(*net.TCPAddr).Port, Jump: &entry, Network: Network{ConnectTimeout: 50 * time.Millisecond}}
	dialFails(t, &Dialer{}, dest, os.ErrDeadlineExceeded, dest.name())

	dest.ConnectTimeout = 0
	ctx, cancel := context.WithCancel(withTimeout(t))
	go func() {
		if c, err := quiet.Accept(); err == nil {
			defer c.Close()
		}
		cancel()
	}()
	if _, err := (&Dialer{}).Dial(ctx, dest); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestMainAsProxy is the ProxyCommand of other tests: they run this test binary, since no other
// program may be available.
func TestMainAsProxy(t *testing.T) {
	addr := os.Getenv("OPENSSH_TEST_PROXY")
	if addr == "" {
		t.Skip("is a part of TestProxyCommand")
	}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		os.Exit(7)
	}
	go func() {
		_, _ = io.Copy(c, os.Stdin)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(os.Stdout, c)
	os.Exit(0)
}

func needShell(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there is no sh")
	}
	t.Setenv("SHELL", "/bin/sh")
}

func TestProxyCommand(t *testing.T) {
	needShell(t)
	s := startServer(t, openServer())
	dest := s.dest(t)
	note := filepath.Join(t.TempDir(), "stderr")
	stderr, err := os.Create(note)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	t.Setenv("OPENSSH_TEST_PROXY", s.addr.String())
	dest.ProxyCommand = "sh -c 'echo through >&2; exec \"" + os.Args[0] + "\" -test.run=^TestMainAsProxy$'"
	c := dialOK(t, &Dialer{Stderr: stderr}, dest)
	if _, _, err := c.SendRequest("keepalive@openssh.com", true, nil); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-c.link.proxy.Done():
	default:
		t.Error("the command runs on")
	}
	if text, err := os.ReadFile(note); err != nil || string(text) != "through\n" {
		t.Errorf("stderr is %q, %v", text, err)
	}
}

func TestProxyCommandFails(t *testing.T) {
	needShell(t)
	dest := Destination{User: "bob", Host: "nowhere.example"}
	for command, want := range map[string]string{
		"sh -c 'exit 3'":            "ProxyCommand: exit status 3",
		"sh -c 'sleep 0.1; exit 4'": "ProxyCommand: exit status 4",
		"nonexistent-command":       "ProxyCommand: exit status 127",
		"true":                      "ProxyCommand ended",
		"echo garbage":              "ProxyCommand ended",
	} {
		dest.ProxyCommand = command
		_, err := (&Dialer{Stderr: io.Discard}).Dial(withTimeout(t), dest)
		if err == nil || !strings.HasPrefix(err.Error(), "connect to nowhere.example: "+want) || errors.Is(err, ErrConfig) {
			t.Errorf("%s: got %v", command, err)
		}
	}

	// This command does nothing, and ignores the signal to exit.
	dest.ProxyCommand = "sh -c 'trap \"\" HUP; while :; do sleep 1; done'"
	dest.ConnectTimeout = 50 * time.Millisecond
	dialFails(t, &Dialer{}, dest, os.ErrDeadlineExceeded)
	dest.ConnectTimeout = 0
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := (&Dialer{}).Dial(ctx, dest); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	t.Setenv("SHELL", "/nonexistent/shell")
	if _, err := (&Dialer{}).Dial(withTimeout(t), dest); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// A wrapped connection counts the bytes written and its calls of Close.
type wrapped struct {
	net.Conn
	bytes  *atomic.Int64
	closed *atomic.Int64
}

func (w wrapped) Write(b []byte) (int, error) {
	w.bytes.Add(int64(len(b)))
	return w.Conn.Write(b)
}

func (w wrapped) Close() error {
	w.closed.Add(1)
	return w.Conn.Close()
}

func TestWrap(t *testing.T) {
	s, entryServer := startServer(t, openServer()), startServer(t, openServer())
	var bytes, closed atomic.Int64
	var mu sync.Mutex
	var kinds []string
	d := &Dialer{Wrap: func(c net.Conn) net.Conn {
		mu.Lock()
		defer mu.Unlock()
		_, tcp := c.(*net.TCPConn)
		kinds = append(kinds, strconv.FormatBool(tcp))
		return wrapped{c, &bytes, &closed}
	}}
	dest, entry := s.dest(t), entryServer.dest(t)
	dest.Jump = &entry
	c := dialOK(t, d, dest)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if bytes.Load() == 0 || closed.Load() < 2 || strings.Join(kinds, " ") != "true false" {
		t.Errorf("%d bytes, %d closed, %v", bytes.Load(), closed.Load(), kinds)
	}
}

// Close ends everything that the connection ran over, however the connection ended, and may be
// called again.
func TestClose(t *testing.T) {
	s, entryServer := startServer(t, openServer()), startServer(t, openServer())
	dest, entry := s.dest(t), entryServer.dest(t)
	dest.Jump = &entry
	c := dialOK(t, &Dialer{}, dest)
	s.hangUp()
	_ = c.Wait()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	c = dialOK(t, &Dialer{}, dest)
	entryServer.hangUp()
	_ = c.Wait()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestBind(t *testing.T) {
	s := startServer(t, openServer())
	dest := s.dest(t)
	dest.BindAddress = "127.0.0.1"
	c := dialOK(t, &Dialer{}, dest)
	if ip := c.LocalAddr().(*net.TCPAddr).IP; !ip.IsLoopback() {
		t.Errorf("bound to %v", ip)
	}
	dest.BindAddress, dest.AddressFamily = "::1", "tcp4"
	dialFails(t, &Dialer{}, dest, ErrConfig, "another family")
	dest.BindAddress, dest.BindInterface = "", "nonexistent0"
	dialFails(t, &Dialer{}, dest, ErrConfig, "nonexistent0")
	ifs, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range ifs {
		if i.Flags&net.FlagLoopback != 0 && i.Flags&net.FlagUp != 0 {
			dest.BindInterface = i.Name
			dialOK(t, &Dialer{}, dest)
		}
	}
}

// All algorithms that a configuration may name work, each on its own.
func TestAlgorithms(t *testing.T) {
	all := append([]string(nil), kexUniverse...)
	for _, list := range []struct {
		names  []string
		server func(*ssh.ServerConfig, []string)
		client func(*Destination, []string)
		got    func(ssh.NegotiatedAlgorithms) string
	}{
		{all, func(c *ssh.ServerConfig, n []string) { c.KeyExchanges = n }, func(d *Destination, n []string) { d.KexAlgorithms = n }, func(a ssh.NegotiatedAlgorithms) string { return a.KeyExchange }},
		{cipherUniverse, func(c *ssh.ServerConfig, n []string) { c.Ciphers = n }, func(d *Destination, n []string) { d.Ciphers = n }, func(a ssh.NegotiatedAlgorithms) string { return a.Read.Cipher }},
		{macUniverse, func(c *ssh.ServerConfig, n []string) { c.MACs, c.Ciphers = n, []string{ssh.CipherAES128CTR} }, func(d *Destination, n []string) { d.MACs = n }, func(a ssh.NegotiatedAlgorithms) string { return a.Write.MAC }},
	} {
		for _, name := range list.names {
			config := openServer()
			list.server(config, []string{name})
			s := startServer(t, config)
			dest := s.dest(t)
			list.client(&dest, []string{name})
			c := dialOK(t, &Dialer{}, dest)
			if got := list.got(algorithmsOf(c)); got != name {
				t.Errorf("%s was agreed on, and not %s", got, name)
			}
		}
	}
	// Weak algorithms are not offered by default.
	for _, change := range []func(*ssh.ServerConfig){
		func(c *ssh.ServerConfig) { c.KeyExchanges = insecure.KeyExchanges },
		func(c *ssh.ServerConfig) { c.Ciphers = insecure.Ciphers },
		func(c *ssh.ServerConfig) {
			c.Ciphers, c.MACs = []string{ssh.CipherAES256CTR}, []string{ssh.HMACSHA1, ssh.InsecureHMACSHA196}
		},
	} {
		config := openServer()
		change(config)
		s := startServer(t, config)
		dialFails(t, &Dialer{}, s.dest(t), ErrConfig, "no common algorithm")
	}
}

// Keys are exchanged again in the middle of a connection.
func TestRekeyLimit(t *testing.T) {
	s, echo := startServer(t, openServer()), startEcho(t)
	dest := s.stranger(t)
	dest.RekeyLimit, dest.Policy = 64<<10, Ask
	p := &script{yes: true}
	c := dialOK(t, &Dialer{Prompter: p}, dest)
	conn, err := c.Dial("tcp", echo)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sent := make([]byte, 1<<20)
	go func() { _, _ = conn.Write(sent) }()
	if _, err := io.ReadFull(conn, make([]byte, len(sent))); err != nil {
		t.Error(err)
	}
	if asked := p.log(); len(asked) != 1 {
		t.Errorf("asked %q", asked)
	}
}

// startEcho returns the address of a server that echoes its input.
func startEcho(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { _, _ = io.Copy(c, c); _ = c.Close() })
		}
	})
	t.Cleanup(func() { _ = l.Close(); work.Wait() })
	return l.Addr().String()
}

func TestNoHost(t *testing.T) {
	if _, err := (&Dialer{}).Dial(withTimeout(t), Destination{}); !errors.Is(err, ErrConfig) {
		t.Errorf("got %v", err)
	}
	loop := &Destination{Host: "h"}
	loop.Jump = loop
	if _, err := (&Dialer{}).Dial(withTimeout(t), *loop); !errors.Is(err, ErrConfig) {
		t.Errorf("got %v", err)
	}
}
