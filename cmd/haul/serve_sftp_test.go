//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// Without users there is one, with a password that is told; nobody else gets in,
// and the host key is the same the next time.
func TestServeSFTPOneTime(t *testing.T) {
	dir := servedDir(t, map[string]string{"kernel": "image"})
	keys := filepath.Join(t.TempDir(), "state", "haul")
	s := startSFTP(t, childOptions{}, dir, "--host-keys", keys)
	f := s.files(s.once())
	f.wantRead("kernel", "image")
	f.wantWrite("log", "text")
	wantFile(t, filepath.Join(dir, "log"), "text")
	s.wantNoLogin(s.as("haul", ssh.Password("wrong")))
	s.wantNoLogin(s.as("root", ssh.Password(s.password)))
	login, _ := newLogin(t)
	s.wantNoLogin(s.as("haul", login))
	said := s.stop()
	for _, want := range []string{
		"haul: serving " + dir + " on sftp://127.0.0.1:",
		"\nhaul: host key ssh-ed25519 SHA256:",
		"\nhaul: that key is new, and kept in " + keys + "/ssh_host_ed25519_key\n",
		"\nhaul: log in as haul with the password " + s.password + " (for this run only; --users FILE has users of your own)\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("lacks %q", want)
		}
	}
	again := startSFTP(t, childOptions{}, dir, "--host-keys", keys)
	if again.key != s.key || again.password == s.password {
		t.Errorf("the key %s and the password %s have become %s and %s", s.key, s.password, again.key, again.password)
	}
	if strings.Contains(again.stop(), "that key is new") {
		t.Error("the key is said to be new again")
	}
	info, err := os.Stat(filepath.Join(keys, "ssh_host_ed25519_key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the host key is %v, %v", info, err)
	}
}

// TFTP is off unless it is asked for, and then both serve the same files: an
// upload by the one can be fetched by the other once it is whole.
func TestServeBoth(t *testing.T) {
	dir := servedDir(t, map[string]string{"kernel": "image"})
	s := startSFTP(t, childOptions{}, dir)
	if said := s.stop(); strings.Contains(said, "tftp://") {
		t.Error("TFTP is served as well")
	}
	s = startSFTP(t, childOptions{}, dir, "--tftp", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
	s.awaitURL()
	s.wantGet("kernel", "image")
	f := s.files(s.once())
	file, err := f.Create(t.Context(), "new")
	if err != nil {
		t.Fatal(err)
	}
	// Create reads and writes, and is not hidden.
	f.want("close", file.Close())
	s.wantGet("new", "")
	f.wantWrite("log", "whole")
	s.wantGet("log", "whole")
	s.wantMetric(`haul_transfers_total{direction="write",protocol="sftp",result="done"} 2`)
	s.wantMetric(`haul_transfers_total{direction="read",protocol="tftp",result="done"} 3`)
	s.wantMetric(`haul_bytes_total{direction="write",protocol="sftp"} 5`)
	s.wantMetric(`haul_sftp_logins_total 1`)
	s.stop()
}

// Nobody sees an upload before it is closed, unless that is asked for.
func TestServeSFTPHidden(t *testing.T) {
	for flag, visible := range map[string]bool{"": false, "--sftp-in-place": true} {
		dir := servedDir(t, nil)
		args := []string{dir}
		if flag != "" {
			args = append(args, flag)
		}
		s := startSFTP(t, childOptions{}, args...)
		f := s.files(s.once())
		file, err := f.OpenFile(t.Context(), "log", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		_, err = file.Write([]byte("text"))
		f.want("write", err)
		f.want("sync", file.Sync())
		if _, err := os.Stat(filepath.Join(dir, "log")); (err == nil) != visible {
			t.Errorf("%q: while it is uploaded, a look at it says %v", flag, err)
		}
		f.want("close", file.Close())
		wantFile(t, filepath.Join(dir, "log"), "text")
		s.stop()
	}
}

// Each user has his own directory and his own rights.
func TestServeSFTPUsers(t *testing.T) {
	dir := servedDir(t, map[string]string{"public/a": "all", "alice/secret": "alice's"})
	other := servedDir(t, map[string]string{"b": "other"})
	alice, aliceKey := newLogin(t)
	bob, bobKey := newLogin(t)
	scanner, scannerKey := newLogin(t)
	carl, carlKey := newLogin(t)
	users := usersFile(t, `root %u
user alice
  key `+aliceKey+`
user bob
  key `+bobKey+`
  root public
  access read-only
user scanner
  key `+scannerKey+`
  access upload-only
user carl
  key `+carlKey+`
  root `+other+`
user dora
  key `+carlKey+`
  disabled
user eve
  key `+carlKey+`
  from 192.0.2.0/24
`)
	s := startSFTP(t, childOptions{}, dir, "--users", users)
	ctx := t.Context()

	f := s.files(s.as("alice", alice))
	f.wantRead("/secret", "alice's")
	f.wantWrite("/new", "text")
	if got := f.names("/"); got != "new secret" {
		t.Errorf("alice sees %q", got)
	}
	wantFile(t, filepath.Join(dir, "alice", "new"), "text")

	f = s.files(s.as("bob", bob))
	f.wantRead("a", "all")
	f.wantRefused("write", f.write("b", "text"))
	f.wantRefused("remove", f.Remove(ctx, "a"))
	f.wantRefused("mkdir", f.Mkdir(ctx, "d", 0o755))
	f.wantRefused("rename", f.Rename(ctx, "a", "c"))
	f.wantRefused("symlink", f.Symlink(ctx, "a", "l"))
	f.wantRefused("chmod", f.Chmod(ctx, "a", 0o600))
	if _, err := f.read("../alice/secret"); err == nil {
		t.Error("bob reads alice's file")
	}
	wantNames(t, filepath.Join(dir, "public"), "a")

	// The drop box is made when it is first used.
	f = s.files(s.as("scanner", scanner))
	f.wantWrite("scan", "page")
	_, err := f.read("scan")
	f.wantRefused("read", err)
	if err := f.write("scan", "another"); err == nil {
		t.Error("the drop box lets a file be replaced")
	}
	wantFile(t, filepath.Join(dir, "scanner", "scan"), "page")
	if info, err := os.Stat(filepath.Join(dir, "scanner")); err != nil || info.Mode().Perm() != rootPerm {
		t.Errorf("the drop box is %v, %v", info, err)
	}

	f = s.files(s.as("carl", carl))
	f.wantRead("b", "other")
	f.wantWrite("c", "text")

	s.wantNoLogin(s.as("alice", bob))
	s.wantNoLogin(s.as("dora", carl))
	s.wantNoLogin(s.as("eve", carl))
	s.wantNoLogin(s.as("nobody", carl))
	said := s.stop()
	for _, want := range []string{
		`msg="sftp login" result=accepted user=alice peer=127.0.0.1:`,
		"method=publickey key=SHA256:",
		`msg="sftp: made a user's directory" user=scanner root=scanner`,
		`access=upload-only root=scanner`,
		`msg="sftp login" result=refused user=alice peer=127.0.0.1:`,
		"user is disabled", "may not log in from this address", "there is no such user",
		"result=done direction=write file=/new user=alice",
		"result=refused operation=remove file=/a user=bob",
		"result=refused operation=open file=/b user=bob",
		"haul: who may log in is in " + users + " (users: 6)\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("lacks %q", want)
		}
	}
}

// A user whose directory is missing is told of in the log, and cannot log in.
func TestServeSFTPNoRoot(t *testing.T) {
	dir := servedDir(t, map[string]string{"file": "x"})
	none := filepath.Join(t.TempDir(), "none")
	login, key := newLogin(t)
	if err := os.Symlink("/etc", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	users := usersFile(t, "user reader\n  key "+key+"\n  root reader\n  access read-only\n"+
		"user away\n  key "+key+"\n  root "+none+"\n"+
		"user onfile\n  key "+key+"\n  root file\n"+
		"user onlink\n  key "+key+"\n  root link/x\n")
	s := startSFTP(t, childOptions{}, dir, "--users", users)
	s.await("a root cannot be opened", "open "+none+": no such file or directory; make the directory")
	for _, user := range []string{"reader", "away", "onfile", "onlink"} {
		s.wantNoFiles(s.as(user, login))
		s.await(`level=ERROR msg="sftp login" result=failed user=` + user)
	}
	said := s.stop()
	for _, want := range []string{"open reader below " + dir + ": no such file", "file is not a directory", "link is not a directory, and links are not followed"} {
		if !strings.Contains(said, want) {
			t.Errorf("lacks %q", want)
		}
	}
	wantNames(t, dir, "file", "link")
}

// A change of the users file holds within seconds, and one that is wrong does
// not hold.
func TestServeSFTPReload(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir := servedDir(t, map[string]string{"a": "x"})
	alice, aliceKey := newLogin(t)
	bob, bobKey := newLogin(t)
	withAlice := "user alice\n  key " + aliceKey + "\n"
	withBob := "user bob\n  key " + bobKey + "\n"
	path := usersFile(t, withAlice)
	s := startSFTP(t, childOptions{}, dir, "--users", path)
	s.wantNoLogin(s.as("bob", bob))

	writeUsers(t, path, withAlice+withBob)
	s.await("a change is in force", "users=2")
	a, b := s.login(s.as("alice", alice)), s.login(s.as("bob", bob))

	writeUsers(t, path, withAlice+withBob+"nonsense\n")
	s.await("what was before stays in force", "line 5")
	s.login(s.as("alice", alice))

	// Who is removed is disconnected, and who has other rights now, too.
	half, err := s.files(s.as("alice", alice)).OpenFile(t.Context(), "half", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	writeUsers(t, path, withBob+"  access read-only\n")
	s.await("ending a connection", "ending a connection", "ending a connection", "ending a connection")
	a.Wait()
	b.Wait()
	s.wantNoLogin(s.as("alice", alice))
	f := s.files(s.as("bob", bob))
	f.wantRefused("write", f.write("b", "x"))

	// Another password or key is no reason.
	_, other := newLogin(t)
	writeUsers(t, path, "user bob\n  access read-only\n  key "+other+"\n")
	s.await("access=read-only", "a change is in force")
	f.wantRead("a", "x")
	s.wantNoLogin(s.as("bob", bob))

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s.await("no such file or directory")
	f.wantRead("a", "x")
	said := s.stop()
	for _, want := range []string{"reason=\"the user was removed\"", "reason=\"the user has another access now\"",
		`file=/half user=alice`, `error="sftp: ended by the server: the user was removed; what had come of it is discarded"`, `error="the user was removed"`} {
		if !strings.Contains(said, want) {
			t.Errorf("lacks %q", want)
		}
	}
}
