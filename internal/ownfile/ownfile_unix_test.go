//go:build unix

package ownfile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const truncating = os.O_RDWR | os.O_CREATE | os.O_TRUNC

// victim creates a file that must keep its content.
func victim(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Output can go to a pipe and to a device, but not through a link or to a pipe of another user.
func TestCreate(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := firstOf(syscall.Mkfifo(pipe, 0o600), os.Symlink(pipe, link)); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0) // a reader and a writer, so that opening does not wait
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for _, path := range []string{pipe, link, os.DevNull} {
		f, err := Create(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if _, err := f.WriteString("x"); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		f.Close()
	}
	if _, err := Create(dir); err == nil {
		t.Error("a directory was opened")
	}
	victim := victim(t)
	if err := firstOf(os.Remove(link), os.Symlink(victim, link)); err != nil {
		t.Fatal(err)
	}
	if f, err := Create(link); err == nil {
		f.Close()
		t.Error("a link to a file was followed")
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "content" {
		t.Errorf("the file has %q, %v", text, err)
	}
	if os.Geteuid() != 0 {
		return // only root can give files away
	}
	if err := os.Chown(pipe, 4711, -1); err != nil {
		t.Fatal(err)
	}
	if f, err := Create(pipe); err == nil {
		f.Close()
		t.Error("the pipe of another user was opened")
	}
}

// A file that another user may have put there is refused, and keeps its content.
func TestOpenRefuses(t *testing.T) {
	for says, put := range map[string]func(path, victim string) error{
		"symbolic link":      func(path, victim string) error { return os.Symlink(victim, path) },
		"2 names":            func(path, victim string) error { return os.Link(victim, path) },
		"not a regular file": func(path, _ string) error { return syscall.Mkfifo(path, 0o600) },
		"everybody may write": func(path, _ string) error {
			return firstOf(os.WriteFile(path, []byte("content"), 0o600), os.Chmod(path, 0o602))
		},
		"belongs to user 4711": func(path, _ string) error {
			return firstOf(os.WriteFile(path, []byte("content"), 0o644), os.Chown(path, 4711, -1))
		},
	} {
		t.Run(says, func(t *testing.T) {
			if strings.Contains(says, "4711") && os.Geteuid() != 0 {
				t.Skip("only root can give files away")
			}
			victim, path := victim(t), filepath.Join(t.TempDir(), "f")
			if err := put(path, victim); err != nil {
				t.Fatal(err)
			}
			f, err := Open(path, truncating, 0o600, 4712)
			if err == nil {
				f.Close()
			}
			if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), path) {
				t.Errorf("%v, want %q", err, says)
			}
			for _, file := range []string{path, victim} {
				if info, err := os.Stat(file); err != nil || info.Mode().IsRegular() && info.Size() != 7 {
					t.Errorf("%s has lost its content: %v, %v", file, info, err)
				}
			}
		})
	}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// A link that leads nowhere creates no file there.
func TestOpenDanglingLink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "new"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(dir, "link"), truncating, 0o600); err == nil {
		t.Error("a link was followed")
	}
	if _, err := os.Lstat(filepath.Join(dir, "new")); err == nil {
		t.Error("the file that the link leads to was created")
	}
}

// A file of this user is opened, and truncated if that is wanted. A new one is not writable for
// everybody, so it can be opened again.
func TestOpen(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "f")
	for i, want := range []int64{0, 7, 0} {
		f, err := Open(path, []int{truncating, os.O_RDWR, truncating}[i], 0o666)
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil || info.Size() != want || info.Mode().Perm() != 0o664 {
			t.Errorf("open %d: %v, %v, want %d bytes", i+1, info, err, want)
		}
		if _, err := f.WriteAt([]byte("content"), 0); err != nil {
			t.Error(err)
		}
		f.Close()
	}
}

// Files of the given owners, and of root, may be used.
func TestOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	for owner, want := range map[int]bool{0: true, 4711: true, 4712: false} {
		path := victim(t)
		if err := os.Chown(path, owner, -1); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path, os.O_RDWR, 0, 4711)
		if err == nil {
			f.Close()
		}
		if checked := Check(path, 4711); (err == nil) != want || (checked == nil) != want {
			t.Errorf("a file of user %d: %v, %v", owner, err, checked)
		}
	}
}

// A directory may be named by a link of this user, but not by one of another user; and its target
// counts too.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	want := func(what, says string) {
		t.Helper()
		if err := Check(link); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", what, err, says)
		}
	}
	want("nothing", "")
	for _, step := range []struct {
		what string
		do   func() error
		says string
	}{
		{"a link to nothing", func() error { return os.Symlink(target, link) }, ""},
		{"a link to a directory", func() error { return os.Mkdir(target, 0o700) }, ""},
		{"a link to a directory for everybody", func() error { return os.Chmod(target, 0o777) }, ""},
		{"a link to a directory of another user", func() error { return os.Chown(target, 4711, -1) }, "user 4711"},
		{"a link of another user", func() error { return firstOf(os.Chown(target, 0, -1), os.Lchown(link, 4711, -1)) }, "user 4711"},
	} {
		if strings.Contains(step.what, "another user") && os.Geteuid() != 0 {
			continue
		}
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		want(step.what, step.says)
	}
}
