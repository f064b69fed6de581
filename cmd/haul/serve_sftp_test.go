//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// Without users there is one, whose password haul prints; nobody else gets in, and the
// host key is the same the next time.
func TestServeSFTPOneTime(t *testing.T) {
	t.Parallel() // it waits most of the time
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
		"\nhaul: that key is new, and stored in " + keys + "/ssh_host_ed25519_key\n",
		"\nhaul: log in as haul with the password " + s.password + " (for this run only; --users FILE names users of your own)\n",
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

// The one user may read, unless --upload lets them add files, or do anything. haul
// prints at the start which applies.
func TestServeSFTPOneTimeAccess(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, test := range []struct {
		upload    string
		add, rest bool
		says      string
	}{
		{"--upload=", false, false, "haul: clients may read; --upload create lets them"},
		{"--upload=create", true, false, "haul: clients may read, and add files; they cannot change or remove"},
		{"--upload=overwrite", true, true, "haul: clients may read, write, rename and remove all files\n"},
	} {
		dir := servedDir(t, map[string]string{"kernel": "image", "old": "x"})
		s := startSFTP(t, childOptions{}, dir, test.upload)
		f := s.files(s.once())
		check := func(what string, allowed bool, err error) {
			t.Helper()
			if allowed {
				f.want(test.upload+": "+what, err)
			} else {
				f.wantRefused(test.upload+": "+what, err)
			}
		}
		f.wantRead("kernel", "image")
		check("add", test.add, f.write("new", "text"))
		check("make a directory", test.add, f.Mkdir(t.Context(), "d", 0o755))
		check("rename", test.rest, f.Rename(t.Context(), "old", "older"))
		check("remove", test.rest, f.Remove(t.Context(), "kernel"))
		if test.add {
			f.wantRead("new", "text")
			// By another connection, which has not made it.
			if err := s.files(s.once()).write("new", "other"); (err == nil) != test.rest {
				t.Errorf("%s: write again: %v", test.upload, err)
			}
		}
		if said := s.stop(); !strings.Contains(said, test.says) {
			t.Errorf("%s: lacks %q", test.upload, test.says)
		}
	}
}

// With --host-keys none a directory can be served that holds all the places for host
// keys, as / does: the key is in memory, and another one after each start.
func TestServeSFTPOneTimeHostKey(t *testing.T) {
	state := servedDir(t, map[string]string{"kernel": "image"})
	env := []string{"STATE_DIRECTORY=" + state}
	code, _, message := haul(t, "serve", state, "--sftp", "127.0.0.1:0", "--host-keys", filepath.Join(state, "keys"))
	if code != exitUsage || !strings.Contains(message, "--host-keys none") {
		t.Errorf("exit code %d, %s; want advice on --host-keys none", code, message)
	}
	keys := map[string]bool{}
	for range 2 {
		s := startSFTP(t, childOptions{env: env}, state, "--host-keys", "none")
		s.files(s.once()).wantRead("kernel", "image")
		keys[s.key] = true
		if said := s.stop(); !strings.Contains(said, "haul: that key is for this run only\n") {
			t.Errorf("the start does not say that the key is for this run only: %s", said)
		}
	}
	if len(keys) != 2 {
		t.Error("the key is the same after a restart")
	}
	wantNames(t, state, "kernel")
	code, _, message = haul(t, "serve", state, "--sftp", "127.0.0.1:0", "--host-keys", "none", "--restartable")
	if code != exitUsage || !strings.Contains(message, "--restartable") {
		t.Errorf("exit code %d, %s; want a refusal", code, message)
	}
}

// TFTP is off unless it is asked for, and then both serve the same files: an
// upload by the one can be fetched by the other once it is whole.
func TestServeBoth(t *testing.T) {
	t.Parallel() // it waits most of the time
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

// An absolute link leads to what clients know by that path, by all protocols.
func TestServeAbsoluteLinks(t *testing.T) {
	dir := servedDir(t, map[string]string{"v2/kernel": "image"})
	for name, text := range map[string]string{"current": "/v2", "v2/latest": "/current/kernel", "out": dir + "/v2/kernel"} {
		if err := os.Symlink(text, filepath.Join(dir, name)); err != nil {
			t.Skip(err) // on Windows only some users may
		}
	}
	s := startSFTP(t, childOptions{}, dir, "--tftp", "127.0.0.1:0")
	s.awaitURL()
	h := startHTTP(t, dir)
	f := s.files(s.once())
	for _, name := range []string{"current/kernel", "current/latest"} {
		f.wantRead(name, "image")
		s.wantGet(name, "image")
		h.want(200, "image", "GET /"+name, "")
	}
	if text, err := f.Readlink(t.Context(), "current"); err != nil || text != "/v2" {
		t.Errorf("the link says %q, %v", text, err)
	}
	if _, err := f.Stat(t.Context(), "out"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link to a path of the machine: %v", err)
	}
	h.want(404, "*", "GET /out", "")
}

// Nobody sees an upload before it is closed, unless that is asked for.
func TestServeSFTPHidden(t *testing.T) {
	t.Parallel() // it waits most of the time
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

// Each user has a directory and rights of their own.
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
	if info, err := os.Stat(filepath.Join(dir, "scanner")); err != nil || info.Mode().Perm() != 0o750 {
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
		`msg="sftp: created a user's directory" user=scanner root=scanner`,
		`access=upload-only root=scanner`,
		`msg="sftp login" result=refused user=alice peer=127.0.0.1:`,
		"user is disabled", "may not log in from this address", "there is no such user",
		"result=done direction=write file=/new user=alice",
		"result=refused operation=remove file=/a user=bob",
		"result=refused operation=open file=/b user=bob",
		"haul: 6 users, from " + users + "\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("lacks %q", want)
		}
	}
}

// A directory below DIR that is missing is made, also for users who only read. A user
// whose directory cannot be opened is in the log, gets no files, and learns why.
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
	if names, err := s.files(s.as("reader", login)).ReadDir(t.Context(), "."); err != nil || len(names) > 0 {
		t.Errorf("the directory of a user who only reads, when missing: %v, %v", names, err)
	}
	for _, user := range []string{"away", "onfile", "onlink"} {
		s.wantNoFiles(s.as(user, login))
		s.await(`level=ERROR msg="sftp login" result=failed user=` + user)
	}
	said := s.stop()
	for _, want := range []string{"created a user's directory\" user=reader", "file is not a directory", "link is not a directory, and links are not followed"} {
		if !strings.Contains(said, want) {
			t.Errorf("lacks %q", want)
		}
	}
	wantNames(t, dir, "file", "link", "reader")
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
	s.await("the changed file is in force", "users=2")
	a, b := s.login(s.as("alice", alice)), s.login(s.as("bob", bob))

	writeUsers(t, path, withAlice+withBob+"nonsense\n")
	s.await("the previous file stays in force", "line 5")
	s.login(s.as("alice", alice))
	writeUsers(t, path, withAlice+withBob) // the author learns that this was right
	s.await("the file has no mistake any more", "users=2")

	// Users who are removed are disconnected, and so are those whose rights have changed.
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

	// A further key is no reason, and the loss of the one that was used is.
	other, otherKey := newLogin(t)
	readOnly := "user bob\n  access read-only\n"
	writeUsers(t, path, readOnly+"  key "+otherKey+"\n  key "+bobKey+"\n")
	s.await("access=read-only", "the changed file is in force")
	f.wantRead("a", "x")
	writeUsers(t, path, readOnly+"  key "+otherKey+"\n")
	s.await("access=read-only", "ending a connection", "does not belong to the user")
	s.wantNoLogin(s.as("bob", bob))
	f = s.files(s.as("bob", other))

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s.await("no such file or directory")
	f.wantRead("a", "x")
	said := s.stop()
	for _, want := range []string{"reason=\"the user was removed\"", "reason=\"the user has another access now\"", `reason="the key does not belong to the user"`,
		`file=/half user=alice`, `error="sftp: ended by the server: the user was removed; the part that arrived is discarded"`, `error="the user was removed"`} {
		if !strings.Contains(said, want) {
			t.Errorf("lacks %q", want)
		}
	}
}
