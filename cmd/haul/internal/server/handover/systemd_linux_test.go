package handover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/handovertest"
	"github.com/haul-project/haul/udp"
)

// A service is this test binary in another role, as systemd would start it.
const serviceVar = "HAUL_TEST_SERVICE"

var services = map[string]func() error{
	"echo":       echoService,
	"unexpected": unexpectedService,
}

func init() {
	name := os.Getenv(serviceVar)
	if name == "" {
		return
	}
	if err := services[name](); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// echoService answers datagrams on the sockets that systemd passed, until a signal ends it. It
// makes the same calls as a server, in the same order.
func echoService() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	inherited, err := Inherit(udp.Config{}, []string{TFTP}, nil, nil)
	if err != nil {
		return err
	}
	var conns []*udp.Conn
	for _, place := range inherited.Datagram([]string{":69"}) {
		conns = append(conns, place.Conns...)
	}
	m, err := FindManager()
	if err != nil {
		return err
	}
	defer m.Close()
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		if v, ok := os.LookupEnv(name); ok {
			return fmt.Errorf("%s=%s is left for children", name, v)
		}
	}
	if err := m.Ready(fmt.Sprintf("echoing on\n%d sockets", len(conns))); err != nil {
		return err
	}
	fed := make(chan error)
	go func() { fed <- m.KeepAlive(ctx, func() bool { return true }) }()
	echoed := make(chan error)
	for _, c := range conns {
		go func() { echoed <- echo(ctx, c) }()
	}
	<-ctx.Done()
	for _, c := range conns {
		c.Wake()
	}
	for range conns {
		err = errors.Join(err, <-echoed)
	}
	return errors.Join(err, <-fed, m.Stopping("done"))
}

func echo(ctx context.Context, c *udp.Conn) error {
	ms := make([]udp.Message, c.Limits().Messages)
	for i := range ms {
		ms[i].Data = make([]byte, max(c.Limits().Datagram, 1500))
	}
	for ctx.Err() == nil {
		n, err := c.Read(ms, time.Time{})
		if err != nil {
			return err
		}
		if _, err := c.Write(ms[:n]); err != nil {
			return err
		}
	}
	return nil
}

// unexpectedService starts with a socket that is not meant for it.
func unexpectedService() error {
	inherited, err := Inherit(udp.Config{}, []string{TFTP}, nil, nil)
	if err != nil {
		return err
	}
	defer inherited.Close()
	if len(inherited.left) > 0 {
		return errors.New("took sockets that were not for it")
	}
	return nil
}

func TestActivated(t *testing.T) {
	s := handovertest.NewSystemd(t)
	var files []*os.File
	var peers []net.Conn
	for range 2 {
		socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		f, err := socket.File()
		if err != nil {
			t.Fatal(err)
		}
		peer, err := net.Dial("udp4", socket.LocalAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		socket.Close() // systemd's copy stays open in f
		t.Cleanup(func() { f.Close(); peer.Close() })
		files, peers = append(files, f), append(peers, peer)
	}
	// This datagram makes systemd start the service.
	if _, err := peers[0].Write([]byte("first")); err != nil {
		t.Fatal(err)
	}
	cmd := s.Command(t, files, serviceVar+"="+"echo", "LISTEN_FDNAMES=tftp:haul.socket", "WATCHDOG_USEC=30000")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if got, want := s.Receive(t), "READY=1\nSTATUS=echoing on 2 sockets"; got != want {
		t.Errorf("the service said %q, want %q", got, want)
	}
	for range 2 {
		if got := s.Receive(t); got != "WATCHDOG=1" {
			t.Errorf("the service said %q, want a sign of life", got)
		}
	}
	if _, err := peers[1].Write([]byte("second")); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"first", "second"} {
		b := make([]byte, 100)
		peers[i].SetReadDeadline(time.Now().Add(patience))
		if n, err := peers[i].Read(b); err != nil || string(b[:n]) != want {
			t.Errorf("answer %q, %v; want %q", b[:n], err, want)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	last := s.Receive(t)
	for last == "WATCHDOG=1" {
		last = s.Receive(t)
	}
	if want := "STOPPING=1\nSTATUS=done"; last != want {
		t.Errorf("the service's last words are %q, want %q", last, want)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v, said %s", err, &said)
	}
}

func TestActivatedUnexpected(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	tcp, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	local, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	unix, err := local.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, c := range []struct {
		name  string
		files []*os.File
		env   []string
		says  string // a part of the text of the refusal; "" if nothing is refused
	}{
		{"no sockets", nil, nil, ""},
		{"sockets for another process", []*os.File{tcp}, []string{"LISTEN_PID=1"}, ""},
		{"nonsense", []*os.File{tcp}, []string{"LISTEN_FDS=x"}, ""},
		{"a file", []*os.File{null}, []string{"LISTEN_FDNAMES=web"}, "web: "},
		{"a local socket", []*os.File{unix}, []string{"LISTEN_FDNAMES=web"}, "web: a stream socket that is not TCP"},
		{"fewer than promised", nil, []string{"LISTEN_FDS=1"}, "LISTEN_FD_3"},
		{"too many", nil, []string{"LISTEN_FDS=1000"}, "at most 64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := handovertest.NewSystemd(t).Command(t, c.files, append(c.env, serviceVar+"=unexpected")...).CombinedOutput()
			if (err != nil) != (c.says != "") || !strings.Contains(string(out), c.says) {
				t.Errorf("%v, said %q; want %q", err, out, c.says)
			}
		})
	}
}

// Without a manager, no messages are sent.
func TestNoManager(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	m, err := FindManager()
	if m != nil || err != nil {
		t.Fatal(m, err)
	}
	never := func() bool { t.Error("asked for a sign of life"); return true }
	for _, err := range []error{m.Ready("x"), m.Stopping("x"), m.KeepAlive(t.Context(), never), m.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
}

func TestFindManagerErrors(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "missing"))
	if _, err := FindManager(); err == nil || !strings.Contains(err.Error(), "NOTIFY_SOCKET=") {
		t.Errorf("a manager that is not there: %v", err)
	}
	for _, usec := range []string{"x", "-1"} {
		t.Setenv("WATCHDOG_USEC", usec)
		if _, err := FindManager(); err == nil || !strings.Contains(err.Error(), "WATCHDOG_USEC") {
			t.Errorf("WATCHDOG_USEC=%s: %v", usec, err)
		}
	}
}

// If a server hangs, the watchdog is not reset.
func TestWatchdogGoesHungry(t *testing.T) {
	s := handovertest.NewSystemd(t)
	t.Setenv("NOTIFY_SOCKET", s.Path)
	t.Setenv("WATCHDOG_USEC", "3000")
	m, err := FindManager()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ctx, cancel := context.WithCancel(t.Context())
	answers := []bool{true, false, false, true}
	asked := 0
	err = m.KeepAlive(ctx, func() bool {
		asked++
		if asked == len(answers) {
			cancel()
		}
		return answers[asked-1]
	})
	if err != nil || asked != len(answers) {
		t.Fatalf("asked %d times: %v", asked, err)
	}
	if err := m.notify("END"); err != nil {
		t.Fatal(err)
	}
	var heard []string
	for !slices.Contains(heard, "END") {
		heard = append(heard, s.Receive(t))
	}
	if want := []string{"WATCHDOG=1", "WATCHDOG=1", "END"}; !slices.Equal(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
}

// If the manager is gone, a message fails at once.
func TestManagerGone(t *testing.T) {
	s := handovertest.NewSystemd(t)
	t.Setenv("NOTIFY_SOCKET", s.Path)
	t.Setenv("WATCHDOG_USEC", "3000")
	m, err := FindManager()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s.Close()
	alive := func() bool { return true }
	for _, err := range []error{m.Ready("x"), m.Stopping("x"), m.KeepAlive(t.Context(), alive)} {
		if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ENOTCONN) {
			t.Errorf("%v, want what the kernel says of a socket without a peer", err)
		}
	}
}
