package ports

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/service"
)

// Errors that another port does not fix are returned.
func TestFallBackReasons(t *testing.T) {
	for err, want := range map[error]string{
		syscall.EACCES:        "no privilege for port 69, taking :6969 instead (port 69 needs root",
		syscall.EADDRINUSE:    "another server has port 69, taking :6969 instead (port 69 is free once that server is stopped; --tftp ADDRESS",
		syscall.EADDRNOTAVAIL: "",
	} {
		var out strings.Builder
		other := Fallback{Name: handover.TFTP, Asked: []string{":69"}, Other: ":6969"}.After(os.NewSyscallError("bind", err), &service.Env{Out: &out})
		if (other != nil) != (want != "") || !strings.Contains(out.String(), want) {
			t.Errorf("%v: %q, %s", err, other, out.String())
		}
	}
	// After a reload this server itself uses the port.
	if other := (Fallback{Name: handover.TFTP, Asked: []string{":69"}, Other: ":6969", Rival: &net.UDPAddr{Port: 69}}).After(syscall.EADDRINUSE, &service.Env{Out: io.Discard}); other != nil {
		t.Errorf("fell back to %q from a port of its own", other)
	}
}

// Advice about an address names the flag, and its special features.
func TestListenErrors(t *testing.T) {
	for _, c := range []struct {
		flag string
		err  error
		want string
	}{
		{"metrics", syscall.EADDRINUSE, "that port; stop it, or choose another with --metrics"},
		{"sftp", syscall.EADDRINUSE, "on 22 most often sshd"},
		{"metrics", syscall.EACCES, "CAP_NET_BIND_SERVICE; try --metrics :9069"},
		{"http", syscall.EADDRNOTAVAIL, "no such address; \"ip address\" lists those it has"},
		{"metrics", syscall.EADDRNOTAVAIL, ":PORT is all of them"},
		{"https", syscall.EINVAL, "its interface, as in fe80::1%eth0"},
		{"metrics", syscall.EMFILE, "metrics: "},
	} {
		err := ListenError(c.flag, &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", c.err)}, nil)
		if got := err.Error(); !strings.Contains(got, c.want) || !errors.Is(err, c.err) || !errors.Is(err, failure.Listen) {
			t.Errorf("%s, %v: %T, %v", c.flag, c.err, err, err)
		}
	}
}
