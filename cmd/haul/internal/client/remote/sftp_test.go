package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/cmd/haul/internal/client/openssh"
	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/users"
)

// Advice does not mention passwords if the server accepts only keys.
func TestAdviceAfterLogin(t *testing.T) {
	for allowed, password := range map[string]bool{"publickey": false, "publickey,password": true, "": true} {
		refused := &openssh.AuthError{User: "u", Host: "h"}
		if allowed != "" {
			refused.Allowed = strings.Split(allowed, ",")
		}
		if err := adviseSSH(refused, Location{}, &Config{Batch: true}); strings.Contains(err.Error(), "--password-file") != password {
			t.Errorf("allowed %q: %v", allowed, err)
		}
	}
}

// startSFTP runs a server for a user "me" with a password, and returns an ssh_config file that
// calls it "lab".
func startSFTP(t *testing.T, password string) (config string) {
	t.Helper()
	host, _ := servetest.NewKey(t)
	hash, err := users.HashPassword([]byte(password))
	if err != nil {
		t.Fatal(err)
	}
	who, err := users.New(users.User{Name: "me", Password: hash})
	if err != nil {
		t.Fatal(err)
	}
	s := &sftp.Server{
		SSH: servetest.SSHConfig(host, who),
		Login: func(_ context.Context, c *ssh.ServerConn) (*sftp.Account, error) {
			return &sftp.Account{User: c.User(), Tree: store.Mem(0)}, nil
		},
	}
	_, port, _ := net.SplitHostPort(servetest.SFTP(t, s))
	home := t.TempDir()
	known := filepath.Join(home, "known_hosts")
	servetest.WriteFile(t, known, fmt.Sprintf("[127.0.0.1]:%s %s", port, ssh.MarshalAuthorizedKey(host.PublicKey())))
	config = filepath.Join(home, "config")
	servetest.WriteFile(t, config, fmt.Sprintf("Host lab\n  HostName 127.0.0.1\n  Port %s\n  User me\n  UserKnownHostsFile %q\n  GlobalKnownHostsFile none\n"+
		"  IdentityAgent none\n  PreferredAuthentications password\n", port, known))
	return config
}

// A counting is a Prompter that knows the password, and counts how many times it is asked.
type counting struct {
	openssh.Batch
	asked int
}

func (c *counting) Password(context.Context, string, string) (string, error) {
	c.asked++
	return "open sesame", nil
}

// Further connections ask no questions, and use the password of the first connection. They end when
// the client closes them.
func TestFurtherConnections(t *testing.T) {
	d := newSSHDialer(&Config{SSH: SSHConfig{ConfigFile: startSFTP(t, "open sesame")}}, newNotices(func(text string) { t.Error("it says", text) }), nil)
	asked := new(counting)
	d.dialer.Prompter = asked
	where, err := Parse("lab:")
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.connect(t.Context(), where, Intent{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	dest, err := d.resolve(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	another, err := d.further(dest)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := another.SendRequest("keepalive@openssh.com", true, nil); err != nil {
		t.Error(err)
	}
	if err := another.Close(); err != nil {
		t.Error(err)
	}
	if asked.asked != 1 {
		t.Errorf("%d questions", asked.asked)
	}
	// Connections to a host whose password is unknown fail without a question.
	d.dialer = openssh.Dialer{Prompter: asked}
	if _, err := d.further(dest)(t.Context()); !errors.Is(err, openssh.ErrAuth) || asked.asked != 1 {
		t.Errorf("%v, and %d questions", err, asked.asked)
	}
}
