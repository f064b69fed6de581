package servetest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/sftp"
)

// An SFTPHost is an SFTP server that can be stopped and started again, and a home directory for its
// clients. The ssh_config, keys and known_hosts in Home let a client log in to the server as "boot"
// with a key.
type SFTPHost struct {
	Home string
	Port int

	t       testing.TB
	account sftp.Account
	config  *ssh.ServerConfig

	mu   sync.Mutex
	stop func() // stops the server; nil while it is stopped; guarded by mu
}

// NewSFTPHost starts a server. Clients that log in with the key in Home get the account a.
func NewSFTPHost(t testing.TB, a sftp.Account) *SFTPHost {
	t.Helper()
	h := &SFTPHost{Home: t.TempDir(), t: t, account: a}
	host, _ := NewKey(t)
	user, private := NewKey(t)
	h.config = &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(key.Marshal(), user.PublicKey().Marshal()) {
			return nil, errors.New("another key")
		}
		return nil, nil
	}}
	h.config.AddHostKey(host)
	h.Start()
	for name, text := range map[string]string{
		"known_hosts": fmt.Sprintf("[127.0.0.1]:%d %s", h.Port, ssh.MarshalAuthorizedKey(host.PublicKey())),
		"id_ed25519":  string(pem.EncodeToMemory(private)),
		"config":      fmt.Sprintf("Host nas\n  HostName 127.0.0.1\n  Port %d\n  User boot\n  IdentityAgent none\n  GlobalKnownHostsFile none\n", h.Port),
	} {
		path := filepath.Join(h.Home, ".ssh", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(h.Stop)
	return h
}

// NewKey creates a key. It returns the key as a signer, and as the content of a private key file.
func NewKey(t testing.TB) (ssh.Signer, *pem.Block) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	private, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer, private
}

// Start starts the server, at the same port as before. Any goroutine may call it.
func (h *SFTPHost) Start() {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", h.Port))
	if err != nil {
		h.t.Error(err)
		return
	}
	h.Port = l.Addr().(*net.TCPAddr).Port
	s := &sftp.Server{
		Grace: time.Millisecond,
		SSH:   func(context.Context, net.Conn) (*ssh.ServerConfig, error) { return h.config, nil },
		Login: func(context.Context, *ssh.ServerConn) (*sftp.Account, error) {
			a := h.account
			return &a, nil
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(ctx, l) // the error is nil after Stop, and any other error makes the test itself fail
	}()
	h.stop = func() {
		cancel()
		<-ended
	}
}

// Stop stops the server and cuts its connections.
func (h *SFTPHost) Stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop != nil {
		h.stop()
	}
	h.stop = nil
}
