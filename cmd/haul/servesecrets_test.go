//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// No protocol serves the secret files of another, whichever flag names the directory, and no client
// can create files there.
func TestSecretsOfAllProtocols(t *testing.T) {
	t.Setenv("CONFIGURATION_DIRECTORY", t.TempDir())
	dir, state, apart := t.TempDir(), t.TempDir(), t.TempDir()
	in := func(parts ...string) string { return filepath.Join(parts...) }
	keys := in(state, "keys")
	cert, _ := certificate(t, state)
	_, key := newLogin(t)
	wide := usersFile(t, "user wide\n  root "+state+"\n  password $2a$04$"+strings.Repeat("x", 53)+"\n")
	inner := in(state, "users")
	writeFile(t, inner, "user alice\n  key "+key+"\n")
	for _, file := range []string{wide, inner} {
		if err := os.Chmod(file, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := in(apart, "link")
	if err := os.Symlink(state, link); err != nil {
		t.Skip(err)
	}
	// The served directory contains symbolic links, which clients could create as well.
	toUsers, toDir, viaDir := in(dir, "users"), in(dir, "state"), in(apart, "via", "users")
	for link, target := range map[string]string{toUsers: inner, toDir: state, in(apart, "via"): in("..", filepath.Base(apart), "hop"), in(apart, "hop"): toDir} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	lists := map[string]string{}
	for _, word := range []string{"authorities", "revoked"} {
		list := in(dir, word)
		writeFile(t, list, key+"\n")
		lists[word] = in(state, "users-"+word)
		writeFile(t, lists[word], word+" "+list+"\nuser alice\n  key "+key+"\n")
		for _, file := range []string{list, lists[word]} {
			if err := os.Chmod(file, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	sftp := []string{"--sftp", "127.0.0.1:0", "--host-keys", keys}
	http := []string{"--http", "127.0.0.1:0"}
	https := append([]string{"--https", "127.0.0.1:0"}, cert...)
	tftp := []string{"--tftp", "127.0.0.1:0"}
	other := []string{"--sftp", "127.0.0.1:0", "--host-keys", in(apart, "keys")}
	for _, test := range []struct {
		what string
		flag string // the flag that the error names
		args [][]string
	}{
		{"DIR of all", "--host-keys", [][]string{{state}, sftp, http}},
		{"a further DIR", "--host-keys", [][]string{{dir, state}, sftp, http}},
		{"another directory for some clients", "--host-keys", [][]string{{dir, "--root", "10.0.0.0/8=" + state}, sftp, http}},
		{"the same by TFTP", "--host-keys", [][]string{{dir, "--root", "10.0.0.0/8=" + link}, sftp, tftp}},
		{"uploads", "--host-keys", [][]string{{dir, "--upload", "create", "--upload-dir", state}, sftp, http}},
		{"a root of a user of HTTP", "--host-keys", [][]string{{dir, "--http-auth", wide, "--http-plain-auth"}, sftp, http}},
		{"a root of a user of SFTP", "--key", [][]string{{dir, "--users", wide}, other, https}},
		{"the key by TFTP", "--key", [][]string{{state}, tftp, https}},
		{"the users by HTTP", "--users", [][]string{{state, "--users", inner}, other, http}},
		{"a link to the users", "--users", [][]string{{dir, "--users", toUsers}, other}},
		{"a link to their directory", "--users", [][]string{{dir, "--users", in(toDir, "users")}, other}},
		{"a link to a link to it", "--users", [][]string{{dir, "--users", viaDir}, other}},
		{"the authorities", "--users", [][]string{{dir, "--users", lists["authorities"]}, other}},
		{"the keys that are revoked", "--users", [][]string{{dir, "--users", lists["revoked"]}, other, http}},
	} {
		args := []string{"serve"}
		for _, more := range test.args {
			args = append(args, more...)
		}
		code, _, message := haul(t, args...)
		if code != exitUsage || !strings.Contains(message, "which is served") || !strings.Contains(message, test.flag+" ") {
			t.Errorf("%s: exit code %d, %s", test.what, code, message)
		}
	}
	if _, err := os.Stat(keys); err == nil {
		t.Error("host keys were made where they would be served")
	}
}
