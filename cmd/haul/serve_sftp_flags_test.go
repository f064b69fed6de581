package main

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// What makes no sense is refused, with what to do about it.
func TestServeSFTPConflicts(t *testing.T) {
	t.Setenv("CONFIGURATION_DIRECTORY", t.TempDir())
	dir, state := t.TempDir(), t.TempDir()
	in := func(parts ...string) string { return filepath.Join(parts...) }
	file := in(state, "file")
	writeFile(t, file, "text")
	empty, open, wrong, inside := in(state, "empty"), in(state, "open"), in(state, "wrong"), in(dir, "users")
	for path, text := range map[string]string{empty: "# nobody\n", open: "user a\n", wrong: "user a\n  sing\n", inside: "user a\n", in(state, "root"): "user a\n  root " + dir + "\n"} {
		writeFile(t, path, text)
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	sftp := []string{"--sftp", "127.0.0.1:0", "--host-keys", in(state, "keys")}
	for _, test := range []struct {
		args []string
		code int
		says []string
		skip bool
	}{
		{args: []string{dir, "--users", file}, code: exitUsage, says: []string{"--users is for SFTP", "--sftp :2022"}},
		{args: []string{dir, "--host-keys", state}, code: exitUsage, says: []string{"--host-keys is for SFTP"}},
		{args: []string{dir, "--sftp-rate", "1M", "--tftp", "127.0.0.1:0"}, code: exitUsage, says: []string{"--sftp-rate is for SFTP"}},
		{args: append([]string{dir, "--upload", "create", "--users", file}, sftp...), code: exitUsage, says: []string{"--upload is for those without an account", "haul user set"}},
		{args: append([]string{dir, "--upload-dir", state}, sftp...), code: exitUsage, says: []string{"--upload-dir is for TFTP", "--tftp :69"}},
		{args: append([]string{dir, "--upload", "unique"}, sftp...), code: exitUsage, says: []string{"--upload unique is for TFTP"}},
		{args: append([]string{dir, "--upload", "some"}, sftp...), code: exitUsage, says: []string{"--upload some"}},
		{args: []string{dir, "--sftp", "127.0.0.1:2022", "--http", "127.0.0.1:2022"}, code: exitUsage, says: []string{"--sftp and --http have the same address, 127.0.0.1:2022"}},
		{args: append([]string{dir, "--rate", "5", "--tftp", ""}, sftp...), code: exitUsage, says: []string{"--rate is for TFTP"}},
		{args: append([]string{dir, state}, sftp...), code: exitUsage, says: []string{"one directory"}},
		{args: append([]string{""}, sftp...), code: exitUsage, says: []string{"empty"}},
		{args: append([]string{in(dir, "none")}, sftp...), code: exitLocal, says: []string{"none", "no such file"}},
		{args: append([]string{file}, sftp...), code: exitLocal, says: []string{file, "not a directory"}},
		{args: append([]string{dir, "--users", in(state, "none")}, sftp...), code: exitLocal, says: []string{"there is no users file " + in(state, "none") + ";", "haul user add NAME --users"}},
		{args: append([]string{dir, "--users", empty}, sftp...), code: exitUsage, says: []string{empty, "no users", "haul user add NAME --users"}},
		{args: append([]string{dir, "--users", wrong}, sftp...), code: exitLocal, says: []string{wrong, "line 2", "sing"}},
		{args: append([]string{dir, "--users", open}, sftp...), code: exitLocal, says: []string{open, "everybody may read it", "chmod 600"}, skip: runtime.GOOS == "windows"},
		{args: append([]string{dir, "--users", inside}, sftp...), code: exitUsage, says: []string{"--users " + inside, "served"}},
		{args: []string{dir, "--sftp", "127.0.0.1:0", "--host-keys", in(dir, "keys")}, code: exitUsage, says: []string{"--host-keys " + in(dir, "keys"), "host keys", "outside"}},
		{args: []string{in(state), "--sftp", "127.0.0.1:0", "--host-keys", in(state, "not", "yet")}, code: exitUsage, says: []string{"--host-keys", "outside"}},
		{args: []string{state, "--sftp", "127.0.0.1:0", "--host-keys", in(dir, "keys"), "--users", in(state, "root")}, code: exitUsage, says: []string{"outside"}},
		{args: []string{dir, "--sftp", "127.0.0.1:0", "--host-keys", in(file, "keys")}, code: exitLocal, says: []string{file, "not a directory"}},
		{args: []string{dir, "--sftp", taken.Addr().String(), "--host-keys", in(state, "keys")}, code: exitFailed, says: []string{"another server has that port", "--sftp"}},
		{args: []string{dir, "--sftp", "192.0.2.77:0", "--host-keys", in(state, "keys")}, code: exitFailed, says: []string{"no such address"}, skip: runtime.GOOS != "linux"},
	} {
		if test.skip {
			continue
		}
		code, _, message := haul(t, append([]string{"serve"}, test.args...)...)
		for _, want := range test.says {
			if code != test.code || !strings.Contains(message, want) {
				t.Errorf("%q: exit code %d, %q; want %d, and %q", test.args, code, message, test.code, want)
			}
		}
	}
	if _, err := os.Stat(in(dir, "keys")); err == nil {
		t.Error("host keys were made where they would be served")
	}
}

// A place is the same however it is written, and may be made of parts that are
// not there yet.
func TestSettledPath(t *testing.T) {
	dir := settledPath(t.TempDir())
	if err := os.MkdirAll(filepath.Join(dir, "real/deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	for path, want := range map[string]string{
		"real":            "real",
		"link":            "real",
		"link/deep":       "real/deep",
		"link/none/x":     "real/none/x",
		"none":            "none",
		"real/../link/./": "real",
	} {
		if got := settledPath(dir + "/" + path); got != filepath.Join(dir, want) {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

// Where users and host keys are looked for when nothing names a place.
func TestDefaultPlaces(t *testing.T) {
	for _, name := range []string{"CONFIGURATION_DIRECTORY", "STATE_DIRECTORY", "XDG_CONFIG_HOME", "XDG_STATE_HOME"} {
		t.Setenv(name, "")
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	want := func(usersFile, hostKeys string) {
		t.Helper()
		u, err1 := defaultUsersFile()
		k, err2 := defaultHostKeys()
		if err1 != nil || err2 != nil || u != filepath.FromSlash(usersFile) || k != filepath.FromSlash(hostKeys) {
			t.Errorf("%s, %v and %s, %v; want %s and %s", u, err1, k, err2, usersFile, hostKeys)
		}
	}
	if os.Geteuid() == 0 {
		want("/etc/haul/users", "/var/lib/haul")
	} else {
		want(home+"/.config/haul/users", home+"/.local/state/haul")
		t.Setenv("XDG_CONFIG_HOME", home+"/c")
		t.Setenv("XDG_STATE_HOME", "not/absolute")
		want(home+"/c/haul/users", home+"/.local/state/haul")
	}
	t.Setenv("CONFIGURATION_DIRECTORY", "/etc/one:/etc/two")
	t.Setenv("STATE_DIRECTORY", "/var/lib/private/haul")
	want("/etc/one/users", "/var/lib/private/haul")
}

// Without --users a file in the usual place is taken; one that is wrong is not
// passed over.
func TestServeSFTPDefaultUsers(t *testing.T) {
	etc := t.TempDir()
	t.Setenv("CONFIGURATION_DIRECTORY", etc)
	var f sftpFlags
	if file, err := f.usersFile(); file != "" || err != nil {
		t.Errorf("with no file there: %q, %v", file, err)
	}
	path := filepath.Join(etc, "users")
	if code, out, errs := haul(t, "user", "add", "alice", "--key", keyLine(t)); code != 0 || !strings.Contains(out, path) {
		t.Fatalf("user add: exit code %d, %s%s", code, out, errs)
	}
	if file, err := f.usersFile(); file != path || err != nil {
		t.Errorf("with a file there: %q, %v; want %s", file, err, path)
	}
	p, err := (&serveFlags{ssh: f}).openPeople(nil)
	if err != nil || p.file != path || p.password != "" {
		t.Errorf("%+v, %v", p, err)
	}
	writeFile(t, path, "nonsense\n")
	if _, err := (&serveFlags{ssh: f}).openPeople(nil); err == nil || exitCode(err) != exitLocal {
		t.Errorf("a file that is wrong: %v", err)
	}
}
