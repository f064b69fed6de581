//go:build unix

package certs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// In a directory that others share, another user can put a link in place of the lock. It is not
// followed: its target is neither created nor locked.
func TestOwnLockLink(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.Symlink(victim, filepath.Join(dir, ownLock)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Own(dir, nil, "h.example"); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("%v, want an error about a link", err)
	}
	if _, err := os.Lstat(victim); err == nil {
		t.Error("the file that the link leads to was created")
	}
}

// Neither the lock nor the certificate may belong to another user. That user could keep the lock,
// and would know the key. Both may belong to the user that the server becomes.
func TestOwnOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	for _, name := range []string{ownFile, ownLock} {
		for _, link := range []bool{false, true} {
			dir := t.TempDir()
			begin := time.Now()
			if name == ownLock {
				begin = begin.AddDate(0, 0, -400) // it has expired, so the lock is taken again
			}
			if _, _, err := own(dir, begin, nil, []string{"h.example"}); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, name)
			if link {
				if name == ownLock {
					continue // no link is a lock
				}
				if err := os.Rename(path, path+".real"); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(path+".real", path); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Lchown(path, 4711, -1); err != nil {
				t.Fatal(err)
			}
			if _, _, err := Own(dir, []int{0, 4712}, "h.example"); err == nil || !strings.Contains(err.Error(), "user 4711") && !strings.Contains(err.Error(), "another user") {
				t.Errorf("%s of another user, a link %v: %v", name, link, err)
			}
			if _, _, err := Own(dir, []int{0, 4711}, "h.example"); err != nil {
				t.Errorf("%s of the server's user, a link %v: %v", name, link, err)
			}
		}
	}
}
