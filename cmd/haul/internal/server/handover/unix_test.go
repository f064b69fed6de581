//go:build unix

package handover

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// A unix socket is for the services that may have one, and for no other.
func TestAssignUnixSocket(t *testing.T) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	served := []string{SFTP, HTTP}
	for _, test := range []struct {
		service string
		unix    []string
		refused string // what the error says; "" if no error is expected
	}{
		{SFTP, []string{SFTP}, ""},
		{HTTP, []string{SFTP, HTTP}, ""},
		{SFTP, []string{HTTP}, "for SFTP, and it is a unix socket: for SFTP, the socket unit needs a port in ListenStream=; a path needs --sftp-proxy unix"},
		{HTTP, []string{SFTP}, "a path needs --http-proxy unix"},
	} {
		err := assign([]*inherited{{Socket: Socket{Service: test.service, File: f}, at: l.Addr()}}, served, test.unix)
		if (err == nil) != (test.refused == "") || err != nil && !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%s, with unix sockets for %v: %v", test.service, test.unix, err)
		}
	}
}
