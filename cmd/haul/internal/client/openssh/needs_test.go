package openssh

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A server that is going to become another user reads that user's configuration. Needs returns what
// its connections will require: the port of the first host on the way, and the files and agents of
// all hosts.
func TestNeedsOfAccount(t *testing.T) {
	home := t.TempDir()
	config := "Host nas\nProxyJump gate\nUser backup\nIdentityFile ~/.ssh/nas\nIdentityAgent /run/agent\nHost gate\nPort 2200\nHost old\nProxyCommand nc %h %p\n"
	if err := errors.Join(os.Mkdir(filepath.Join(home, ".ssh"), 0o700), os.WriteFile(filepath.Join(home, ".ssh", "config"), []byte(config), 0o600)); err != nil {
		t.Fatal(err)
	}
	account := *thisSystem(nil).account
	account.HomeDir, account.Username = home, "boot"
	o := Overrides{Account: &account, NoExec: true}
	d, err := Resolve(t.Context(), "nas", o)
	if err != nil {
		t.Fatal(err)
	}
	n := d.Needs()
	if d.User != "backup" || d.Jump == nil || d.Jump.User != "boot" || !slices.Equal(n.Ports, []int{2200}) || n.Commands != nil || !slices.Contains(n.Sockets, "/run/agent") {
		t.Errorf("%+v needs %+v", d, n)
	}
	for _, name := range []string{"nas", "nas-cert.pub", "id_ed25519", "known_hosts"} {
		if !slices.Contains(n.Files, filepath.Join(home, ".ssh", name)) {
			t.Errorf("%s is missing in %q", name, n.Files)
		}
	}
	if d, err = Resolve(t.Context(), "old", o); err != nil || !strings.HasPrefix(fmt.Sprint(d.Needs().Commands), "[nc old 22") || d.Needs().Ports != nil {
		t.Errorf("%+v, %v", d.Needs(), err)
	}
}
