package sftp

import (
	"context"
	"net"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// A server has to interpret SYMLINK as the client means it.
func TestLinkOrder(t *testing.T) {
	for _, test := range []struct {
		client, server string
		draft          bool
	}{
		{"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u6", "", false},
		{"SSH-2.0-Go", "", false},
		{"SSH-2.0-paramiko_2.12.0", "", false},
		{"SSH-2.0-libssh2_1.10.0", "", false},
		{"SSH-2.0-AsyncSSH_2.10.1", "", true},
		{"SSH-2.0-libssh_0.10.6", "", true},
		{"SSH-2.0-libssh-0.5.2", "", true},
		{"SSH-2.0-WinSCP_release_6.3.3", "", true},
		{"SSH-2.0-AsyncSSH_2.10.1", "SSH-2.0-OpenSSH_9.9", false},
	} {
		t.Run(test.client+" "+test.server, func(t *testing.T) {
			w := newTestServer(t, func(w *testServer, s *Server) {
				s.SSH = func(context.Context, net.Conn) (*ssh.ServerConfig, error) {
					c := w.config()
					c.ServerVersion = test.server
					return c, nil
				}
			})
			config := w.clientConfig()
			config.ClientVersion = test.client
			c, err := w.dial(w.connect("192.0.2.1"), config)
			if err != nil {
				t.Fatal(err)
			}
			p := w.sftp(c)
			first, second := "what it says", "link"
			if test.draft {
				first, second = second, first
			}
			p.want(wire.OK, wire.AppendSymlink(nil, p.n(), first, second))
			if got := p.name(wire.AppendReadlink(nil, p.n(), "link")); got != "what it says" {
				t.Errorf("the link says %q", got)
			}
		})
	}
}
