//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An upload is invisible until it is closed, unless it is written in place.
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

// A changed users file takes effect within seconds, and an invalid one does not.
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
	writeUsers(t, path, withAlice+withBob) // the log confirms the correction
	s.await("the file has no mistake any more", "users=2")

	// Users who are removed or whose rights have changed are disconnected.
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

	// A new key does not disconnect its user; removing the key in use does.
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
