package servetest

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/users"
)

// TFTP runs a TFTP server on loopback until the test ends. It returns the server's address.
func TFTP(t testing.TB, s tftp.Config) netip.AddrPort {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l, err := s.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	runUntilEnd(t, cancel, func() error { return l.Serve(ctx) })
	return l.Addr()
}

// SSHConfig returns an [sftp.Server].SSH hook. It configures each connection with this host key,
// and with the users who may log in.
func SSHConfig(host ssh.Signer, who *users.Directory) func(context.Context, net.Conn) (*ssh.ServerConfig, error) {
	return func(context.Context, net.Conn) (*ssh.ServerConfig, error) {
		c := &ssh.ServerConfig{}
		c.AddHostKey(host)
		who.Configure(c, users.Options{})
		return c, nil
	}
}

// SFTP runs an SFTP server on loopback until the test ends. It returns the server's address.
func SFTP(t testing.TB, s *sftp.Server) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	runUntilEnd(t, cancel, func() error { return s.Serve(ctx, l) })
	return l.Addr().String()
}

// runUntilEnd runs a server until the test ends. Then it stops the server, and checks that it
// returned no error.
func runUntilEnd(t testing.TB, stop context.CancelFunc, serve func() error) {
	ended := make(chan error, 1)
	go func() { ended <- serve() }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error("server:", err)
		}
	})
}
