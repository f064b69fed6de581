package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/handovertest"
	"github.com/haul-project/haul/store"
)

// startSettledSFTP does the same as startSFTP, for a server that gives up all rights that it can.
func startSettledSFTP(t *testing.T, args ...string) *sftpChild {
	t.Helper()
	if os.Geteuid() == 0 {
		args = append(args, "--user", fmt.Sprintf("%d:%d", nobody, nobody))
	}
	return startSFTP(t, childOptions{env: []string{peekVar + "=/etc/passwd"}}, args...)
}

// All operations of SFTP work in a server that is confined and no longer root, and nothing leads
// out of its directory.
func TestServeSFTPConfined(t *testing.T) {
	dir := servedDir(t, map[string]string{"kernel": "image", "deep/b": "below"})
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Chown(filepath.Join(dir, "deep"), nobody, nobody), os.Chown(filepath.Join(dir, "kernel"), nobody, nobody)); err != nil {
			t.Fatal(err)
		}
	}
	outside := filepath.Join(filepath.Dir(dir), "outside")
	writeFile(t, outside, "secret")
	s := startSettledSFTP(t, dir)
	f := s.files(s.once())
	s.wantSettled()
	ctx := t.Context()

	f.wantRead("kernel", "image")
	f.wantWrite("kernel", "newer")
	f.wantWrite("deep/new", "text")
	f.want("mkdir", f.Mkdir(ctx, "dir", 0o755))
	f.want("rename across directories", f.Rename(ctx, "deep/new", "dir/new"))
	f.want("replace across directories", f.Rename(ctx, "kernel", "dir/new"))
	f.wantRead("dir/new", "newer")
	f.want("link across directories", f.Link(ctx, "dir/new", "deep/linked"))
	f.want("symlink", f.Symlink(ctx, "dir/new", "soft"))
	f.wantRead("soft", "newer")
	size := int64(3)
	f.want("truncate", f.SetAttr(ctx, "dir/new", store.Attr{Size: &size}, true))
	f.wantRead("soft", "new")
	f.want("chmod", f.Chmod(ctx, "soft", 0o600))
	when := time.Unix(1_000_000_000, 0)
	f.want("chtimes", f.SetAttr(ctx, "dir/new", store.Attr{AccessTime: when, ModTime: when}, true))
	// The portable path does not support this.
	if err := f.SetAttr(ctx, "soft", store.Attr{ModTime: when}, false); !errors.Is(err, errors.ErrUnsupported) {
		f.want("lsetstat", err)
	}
	if fi, err := f.Stat(ctx, "soft"); err != nil || fi.Mode().Perm() != 0o600 || !fi.ModTime().Equal(when) {
		t.Errorf("what was set is %v, %v", fi, err)
	}
	if _, err := f.Space(ctx, "dir"); err != nil {
		t.Errorf("space: %v", err)
	}
	if n, err := f.CopyFile(ctx, "dir/new", "copy"); n != 3 || err != nil {
		t.Errorf("copy: %d, %v", n, err)
	}
	if _, _, err := f.Hash(ctx, "copy", 0, 0, "sha256"); err != nil {
		t.Errorf("hash: %v", err)
	}
	if file, err := f.OpenFile(ctx, "place", os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		t.Errorf("in place: %v", err)
	} else {
		_, err := file.WriteAt([]byte("text"), 10)
		f.want("write in place", errors.Join(err, file.Sync(), file.Truncate(12), file.Close()))
	}
	f.want("move a directory", f.Rename(ctx, "dir", "deep/dir"))
	f.want("remove all", f.RemoveAll(ctx, "deep"))
	if got := f.names("."); got != "copy place soft" {
		t.Errorf("left are %q", got)
	}

	f.want("a link to anywhere", f.Symlink(ctx, "/etc/passwd", "passwd"))
	f.want("a link out", f.Symlink(ctx, "../outside", "out"))
	for _, name := range []string{"passwd", "out", "../outside", "/../outside", "soft/../../outside", "/etc/passwd", outside, "/proc/self/environ"} {
		if got, err := f.read(name); err == nil {
			t.Errorf("read %s: %q", name, got)
		}
	}
	f.wantRefused("write through a link", f.write("out", "x"))
	wantFile(t, outside, "secret")
	s.stop()
}

// A server that is confined and no longer root can reach users' directories elsewhere, the users
// file and key files. It cannot reach paths that were not named at its start.
func TestServeSFTPConfinedUsers(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir, other, late := servedDir(t, nil), servedDir(t, map[string]string{"b": "other"}), servedDir(t, nil)
	// The server's user must be able to pass the parents of roots elsewhere.
	for _, d := range []string{other, late} {
		if err := os.Chmod(filepath.Dir(d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	alice, aliceKey := newLogin(t)
	carl, carlKey := newLogin(t)
	path := usersFile(t, "")
	keys := filepath.Join(filepath.Dir(path), "keys")
	if err := os.Mkdir(keys, 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(keys, "alice"), aliceKey+"\n")
	text := "user alice\n  keys keys/alice\n  root alice\nuser carl\n  key " + carlKey + "\n  root " + other + "\n"
	writeUsers(t, path, text)
	s := startSettledSFTP(t, dir, "--users", path)
	f := s.files(s.as("alice", alice))
	s.wantSettled()
	f.wantWrite("a", "text")
	f.want("symlink", f.Symlink(t.Context(), "a", "l"))
	wantFile(t, filepath.Join(dir, "alice", "a"), "text")
	f = s.files(s.as("carl", carl))
	f.wantRead("b", "other")
	f.wantWrite("c", "text")
	f.want("symlink", f.Symlink(t.Context(), "b", "l"))
	f.want("rename", f.Rename(t.Context(), "c", "d"))

	// This adds a key to alice's file, and users to the users file.
	bob, bobKey := newLogin(t)
	writeFile(t, filepath.Join(keys, "alice"), aliceKey+"\n"+bobKey+"\n")
	s.await("the changed file is in force")
	s.files(s.as("alice", bob)).wantRead("a", "text")
	writeUsers(t, path, text+"user bob\n  key "+bobKey+"\n  root bob\nuser late\n  key "+bobKey+"\n  root "+late+"\n")
	s.await("users=4")
	s.files(s.as("bob", bob)).wantWrite("new", "text")
	wantFile(t, filepath.Join(dir, "bob", "new"), "text")
	if strings.Contains(s.stderr.String(), "Landlock ABI") {
		s.await("a root cannot be opened", "open "+late+": permission denied", "when haul starts")
		s.wantNoFiles(s.as("late", bob))
	}
	s.stop()
}

// If a users file becomes unreadable, this is logged at once, even if the file is old, and the
// server keeps its users.
func TestServeSFTPUsersUnreadable(t *testing.T) {
	t.Parallel() // it waits most of the time
	needRoot(t)
	dir := servedDir(t, nil)
	login, key := newLogin(t)
	path := usersFile(t, "user alice\n  key "+key+"\n")
	if err := errors.Join(os.Chmod(path, 0o600), os.Chtimes(path, time.Time{}, time.Now().Add(-time.Hour))); err != nil {
		t.Fatal(err)
	}
	s := startSettledSFTP(t, dir, "--users", path)
	s.await("not noticed before a restart", "chgrp, chmod 640", fmt.Sprint("uid=", nobody), "permission denied")
	s.files(s.as("alice", login)).wantWrite("a", "x")
	// When a readable file replaces it, the server notices.
	writeUsers(t, path, "user bob\n  key "+key+"\n")
	s.await("the changed file is in force")
	s.wantNoLogin(s.as("alice", login))
	s.stop()
}

// The leftovers of a server that was killed during an upload are temporary files, and the next
// server removes them. There never was a file with the upload's name.
func TestServeSFTPKilled(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir, other := servedDir(t, map[string]string{"kernel": "image"}), servedDir(t, nil)
	login, key := newLogin(t)
	path := usersFile(t, "user alice\n  key "+key+"\nuser carl\n  key "+key+"\n  root "+other+"\n")
	if err := os.Chmod(filepath.Dir(other), 0o755); err != nil {
		t.Fatal(err)
	}
	s := startSettledSFTP(t, dir, "--users", path)
	for _, user := range []string{"alice", "carl"} {
		f := s.files(s.as(user, login))
		for _, name := range []string{"kernel", "log"} {
			file, err := f.OpenFile(t.Context(), name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
			if err != nil {
				t.Fatal(err)
			}
			_, err = file.Write(make([]byte, 1<<20))
			f.want("write", errors.Join(err, file.Sync()))
		}
	}
	s.signal(syscall.SIGKILL)
	s.wantExit(-1)
	wantFile(t, filepath.Join(dir, "kernel"), "image")
	for _, d := range []string{dir, other} {
		if _, err := os.Stat(filepath.Join(d, "log")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("there is a log in %s: %v", d, err)
		}
		if left, err := filepath.Glob(filepath.Join(d, ".haul-*.part")); err != nil || len(left) != 2 {
			t.Errorf("left behind are %q, %v; want two hidden files", left, err)
		}
	}
	s = startSettledSFTP(t, dir, "--users", path)
	s.await("removed unfinished uploads", "files=4")
	s.stop()
	wantNames(t, dir, "kernel")
	wantNames(t, other)
}

// A socket unit may also listen for SFTP.
func TestServeSFTPActivated(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir := servedDir(t, map[string]string{"kernel": "image"})
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	l.Close()
	udp, addrs := passedSockets(t, 1)
	for _, both := range []bool{false, true} {
		files, args := []*os.File{file}, []string{"serve", dir, "--sftp", ":22", "--host-keys", filepath.Join(t.TempDir(), "keys")}
		status := "READY=1\nSTATUS=serving SFTP on [" + l.Addr().String() + "]"
		if both {
			files, args = append(files, udp...), append(args, "--tftp", ":69")
			status = "READY=1\nSTATUS=serving TFTP on [" + addrs[0] + "], SFTP on [" + l.Addr().String() + "]"
		}
		if os.Geteuid() == 0 {
			args = append(args, "--user", "65534:65534")
		}
		m := handovertest.NewSystemd(t)
		s := &sftpChild{child: runChild(t, childOptions{
			systemd: true,
			files:   files,
			env:     []string{fmt.Sprint("LISTEN_FDS=", len(files)), "NOTIFY_SOCKET=" + m.Path, "WATCHDOG_USEC=300000", peekVar + "=/etc/passwd", noUsers(t)},
		}, args...)}
		if got := m.Receive(t); got != status {
			t.Errorf("heard %q, want %q", got, status)
		}
		s.awaitSFTP()
		s.wantSettled()
		s.files(s.once()).wantRead("kernel", "image")
		for range 2 {
			if got := m.Receive(t); got != "WATCHDOG=1" {
				t.Errorf("heard %q, want WATCHDOG=1", got)
			}
		}
		if both {
			s.url = "tftp://" + addrs[0] + "/"
			s.wantGet("kernel", "image")
		}
		s.stop()
	}
	// Each socket is refused for the other protocol.
	for _, test := range []struct {
		file *os.File
		args []string
		says string
	}{
		{file, []string{dir, "--tftp", "127.0.0.1:0"}, "ListenDatagram=69"},
		{udp[0], []string{dir, "--sftp", "127.0.0.1:0", "--host-keys", filepath.Join(t.TempDir(), "keys")}, "add --tftp"},
	} {
		said := runChild(t, childOptions{systemd: true, files: []*os.File{test.file}, env: []string{"LISTEN_FDS=1"}},
			append([]string{"serve"}, test.args...)...).wantExit(exitFailed)
		if !strings.Contains(said, test.says) {
			t.Errorf("lacks %q: %s", test.says, said)
		}
	}
}

// Clients can set the setgid bit of a directory, which lets a group share it, if the server allows
// that. Otherwise a directory keeps its special bits.
func TestServeSFTPSpecialBits(t *testing.T) {
	t.Parallel() // it waits most of the time
	for flag, want := range map[string]fs.FileMode{"": fs.ModeDir | 0o770, "--sftp-special-bits": fs.ModeDir | fs.ModeSetgid | 0o770} {
		dir := servedDir(t, nil)
		args := []string{dir}
		if flag != "" {
			args = append(args, flag)
		}
		s := startSFTP(t, childOptions{}, args...)
		f := s.files(s.once())
		f.want("mkdir", f.Mkdir(t.Context(), "shared", 0o755))
		mode := fs.ModeSetgid | 0o770
		f.want("chmod", f.SetAttr(t.Context(), "shared", store.Attr{Mode: &mode}, true))
		if fi, err := os.Stat(filepath.Join(dir, "shared")); err != nil || fi.Mode() != want {
			t.Errorf("%q: the directory is %v, %v, want %v", flag, fi, err, want)
		}
		s.stop()
	}
}
