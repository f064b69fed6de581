//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/users"
)

// If several commands change a users file at once, no change is lost. A killed command has made its
// whole change or none of it.
func TestUserProcesses(t *testing.T) {
	t.Parallel()
	keyLine := func() string { _, line := newLogin(t); return line }
	dir := t.TempDir()
	file, link := filepath.Join(dir, "real", "users"), filepath.Join(dir, "users")
	text := "# kept\nuser alice\n"
	var changes [][]string
	for i := range 4 {
		text += fmt.Sprintf("user old%d\n  key %s\n", i, keyLine())
		name := fmt.Sprintf("new%d", i)
		changes = append(changes,
			[]string{"add", name, "--key", keyLine()}, []string{"key", "add", "alice", keyLine() + " " + name}, []string{"remove", fmt.Sprintf("old%d", i)})
	}
	changes = append(changes, []string{"set", "alice", "--access", "read-only"}, []string{"disable", "alice"})
	err := os.Mkdir(filepath.Dir(file), 0o755)
	if err = errors.Join(err, os.WriteFile(file, []byte(text), 0o640), os.Chmod(file, 0o640), os.Symlink("real/users", link)); err != nil {
		t.Fatal(err)
	}
	run := func(args []string) *child {
		return runChild(t, childOptions{}, append(append([]string{"user"}, args...), "--users", link)...)
	}
	var all, killed []*child
	for i, change := range changes {
		c := run([]string{"add", fmt.Sprintf("killed%d", i), "--key", keyLine()})
		time.AfterFunc(time.Duration(i)*5*time.Millisecond, func() { _ = c.cmd.Process.Kill() })
		killed = append(killed, c)
		all = append(all, run(change))
	}
	for _, c := range all {
		c.wantExit(0)
	}
	for _, c := range killed {
		c.waitEnded()
	}
	d, err := users.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	alice, _ := d.User("alice")
	if len(alice.Keys) != 4 || alice.Access != users.ReadOnly || !alice.Disabled {
		t.Errorf("alice has %d keys, %v, disabled %v", len(alice.Keys), alice.Access, alice.Disabled)
	}
	for i := range 4 {
		if _, ok := d.User(fmt.Sprintf("new%d", i)); !ok {
			t.Errorf("new%d is missing", i)
		}
		if _, ok := d.User(fmt.Sprintf("old%d", i)); ok {
			t.Errorf("old%d is there", i)
		}
	}
	for _, name := range d.Names() {
		if u, _ := d.User(name); strings.HasPrefix(name, "killed") && len(u.Keys) != 1 {
			t.Errorf("%s has %d keys", name, len(u.Keys))
		}
	}
	run([]string{"enable", "alice"}).wantExit(0) // removes what the killed command left behind
	if _, err := os.Lstat(file + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("left behind:", err)
	}
	real, err := os.Stat(file)
	said, err2 := os.Lstat(link)
	if err = errors.Join(err, err2); err != nil || real.Mode().Perm() != 0o640 || said.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the file and the link are %v, %v, %v", real, said, err)
	}
	if b, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(b), "# kept\n") {
		t.Errorf("the file is %q, %v", b, err)
	}
}
