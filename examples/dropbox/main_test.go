package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/users"
)

// A file that was closed is reported with its content. A file whose connection was lost is not
// reported, and leaves nothing behind.
func TestDropbox(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	dir, keys := t.TempDir(), filepath.Join(t.TempDir(), "keys")
	arrived := make(chan string, 10)
	complete := func(name string, size int64) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		arrived <- fmt.Sprint(name, size, string(b), err)
	}
	type login struct {
		addr   string
		config *ssh.ClientConfig
	}
	logins, ended := make(chan login, 1), make(chan error, 1)
	go func() {
		ended <- serve(ctx, dir, keys, "127.0.0.1:0", complete, func(addr, password string, key ssh.PublicKey) {
			logins <- login{addr, &ssh.ClientConfig{
				User: users.OneTimeUser, Auth: []ssh.AuthMethod{ssh.Password(password)}, HostKeyCallback: ssh.FixedHostKey(key),
			}}
		})
	}()
	l := <-logins
	for i, closes := range []bool{false, true} {
		c, err := sftpclient.Dial(ctx, l.addr, l.config, sftpclient.Config{})
		if err != nil {
			t.Fatal(err)
		}
		f, err := c.OpenFile(ctx, fmt.Sprintf("report%d", i), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("all is well"), 0); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(dir, fmt.Sprintf("report%d", i))); err == nil {
			t.Error("a file is visible before it is whole")
		}
		if closes {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
		_ = c.Close()
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got, want := <-arrived, "/report111all is well<nil>"; got != want {
		t.Errorf("arrived: %s, want %s", got, want)
	}
	if entries, err := os.ReadDir(dir); len(entries) != 1 || len(arrived) > 0 || err != nil {
		t.Errorf("%d more have arrived, and the directory has %v, %v", len(arrived), entries, err)
	}
}
