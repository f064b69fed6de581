package main

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Flags that make no sense are refused, with what to do about it.
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
		{args: append([]string{dir, "--upload", "some"}, sftp...), code: exitUsage, says: []string{`--upload "some"`}},
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
