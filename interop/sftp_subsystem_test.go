//go:build unix

package interop

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// These are sshd with haul as its subsystem: OpenSSH handles the login, and haul the files.
var (
	subsystemHidden = sftpServer{
		name:  "sshd, haul sftp-server",
		start: func(t *testing.T, dir string) login { return startSubsystem(t, dir) },
	}
	subsystemInPlace = sftpServer{
		name:  "sshd, haul sftp-server in place",
		start: func(t *testing.T, dir string) login { return startSubsystem(t, dir, "--in-place") },
	}
)

// startSubsystem starts sshd with "haul sftp-server" and the given options.
func startSubsystem(t *testing.T, dir string, options ...string) login {
	t.Helper()
	return startSSHD(t, dir, "Subsystem sftp "+strings.Join(append([]string{haul(t).path, "sftp-server"}, options...), " "))
}

// TestSFTPSubsystem makes the clients use haul below an sshd. TestSFTPServer tests the protocol
// of each library, so here one of them performs all operations on files.
func TestSFTPSubsystem(t *testing.T) {
	exercise(t, haulDriver, subsystemHidden, "sizes", "names", "rename", "links", "attributes", "directories", "space", "pieces", "publish", "copy")
	for _, m := range sftpTools {
		trade(t, m, subsystemHidden, "sizes", "tree", "missing")
		if m.name == "sftp" {
			trade(t, m, subsystemInPlace, "resume")
		}
	}
}

// TestSFTPSubsystemRestic makes restic keep a repository behind haul: it first writes each file
// under another name, and renames it.
func TestSFTPSubsystemRestic(t *testing.T) {
	t.Parallel()
	served, local, back := realDir(t), realDir(t), realDir(t)
	l := startSubsystem(t, served)
	p := find(t, "restic", "restic")
	command := findOpenSSH(t, "ssh").path + " -F " + l.sshConfig(t) + " server -s sftp"
	p.args = []string{"--repo", "sftp:server:repository", "-o", "sftp.command=" + command, "--no-cache", "--quiet"}
	p.env = append(p.env, "RESTIC_PASSWORD=correct horse", "HOME="+t.TempDir())
	files := map[string][]byte{"empty": nil, "small": content(1000), "large": content(3 << 20), "dir/in it": content(70_000)}
	for name, data := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(local, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(local, name), data)
	}
	mustRun(t, p, "", "init")
	mustRun(t, p, "", "backup", local)
	write(t, filepath.Join(local, "small"), content(2000))
	files["small"] = content(2000)
	mustRun(t, p, "", "backup", local)
	mustRun(t, p, "", "forget", "--keep-last", "1", "--prune")
	mustRun(t, p, "", "check", "--read-data")
	mustRun(t, p, "", "restore", "latest", "--target", back)
	for name, data := range files {
		wantFile(t, filepath.Join(back, local, name), data)
	}
}

// TestSFTPSubsystemOwnTests runs pkg/sftp's tests for programs like OpenSSH's sftp-server, with
// haul instead.
func TestSFTPSubsystemOwnTests(t *testing.T) {
	t.Parallel()
	server := filepath.Join(t.TempDir(), "sftp-server")
	if err := os.WriteFile(server, []byte("#!/bin/sh\nexec '"+haul(t).path+"' sftp-server \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := exec.Command("go", "list", "-C", "testdata/pkgsftp", "-f", "{{.Dir}}", "github.com/pkg/sftp").Output()
	tests := program{path: filepath.Join(t.TempDir(), "tests")}
	if err == nil {
		var out []byte
		out, err = exec.Command("go", "test", "-C", "testdata/pkgsftp", "-c", "-o", tests.path, "github.com/pkg/sftp").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, out)
		}
	}
	if err != nil {
		absent(t, "pkg/sftp's tests cannot be built: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	// One test must run in a directory with the package's name, without a version.
	cmd := tests.command(ctx, "-integration", "-sftp", server, "-sftp_client", findOpenSSH(t, "sftp").path, "-test.skip", "^TestGlob$")
	cmd.Dir = strings.TrimSpace(string(dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out[max(0, len(out)-4000):])
	}
}

// await waits until a condition holds.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > startPatience {
			t.Fatalf("no %s within %v", what, startPatience)
		}
	}
}
