//go:build linux

package interop

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// Haul serves files of nginx, sshd and versitygw: completely, partially, in listings and over
// TFTP, and forwards uploads to servers that accept them. It is confined, as always.
func TestSources(t *testing.T) {
	large := content(5<<20 + 3)
	for _, c := range []struct {
		name  string
		open  func(t *testing.T, dir string) (h program, source string)
		puts  bool
		lacks string // the log's text about a directory that cannot be made
	}{
		{"nginx", func(t *testing.T, dir string) (program, string) {
			return haul(t), "http://" + startNginx(t, dir) + "/top/"
		}, false, "a web server cannot make directories"},
		{"sshd", sourceOfSSHD, true, ""},
		{"versitygw", func(t *testing.T, dir string) (program, string) {
			s := serveS3(t)
			do(t, s.haul, "put", "-r", filepath.Join(dir, "top")+"/.", "s3://bucket/top/")
			return s.haul, "s3://bucket/top"
		}, true, "S3 has no directories to make"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, local := t.TempDir(), filepath.Join(t.TempDir(), "local")
			for name, b := range map[string][]byte{"top/large": large, "top/sub/a b+%#ü": content(1000), "outside": content(10)} {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, b, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink("../outside", filepath.Join(dir, "top/leads-out")); err != nil {
				t.Fatal(err)
			}
			h, source := c.open(t, dir)
			d := h.start(t, "serve", source, "--http", "127.0.0.1:0", "--tftp", "127.0.0.1:0", "--listing", "--upload", "create")
			url, tftp := d.ready(t, urlSaid)[1], d.ready(t, listening)[1]
			get := haul(t)
			for name, want := range map[string][]byte{"large": large, "sub/a%20b%2B%25%23%C3%BC": content(1000)} {
				do(t, get, "get", url+"/"+name, local)
				wantFile(t, local, want)
				if err := os.Remove(local); err != nil {
					t.Fatal(err)
				}
			}
			do(t, get, "get", "tftp://"+tftp+"/large", local)
			wantFile(t, local, large)
			if out := do(t, get, "ls", "-R", url+"/"); !strings.Contains(out, "large") || !strings.Contains(out, "a b+%#ü") {
				t.Errorf("ls: %s", out)
			}
			if out := do(t, get, "probe", "tftp://"+tftp+"/large"); out != fmt.Sprintln(len(large)) {
				t.Errorf("probe: %s", out)
			}
			if out, err := get.run(t.Context(), "get", url+"/missing", local); err == nil || !strings.Contains(out, "404") {
				t.Errorf("a missing file: %s", out)
			}
			if c.name == "sshd" {
				if out, err := get.run(t.Context(), "get", url+"/leads-out", local); err == nil || !strings.Contains(out, "403") {
					t.Errorf("a link out of the directory: %s", out)
				}
			}
			_, err := get.run(t.Context(), "put", local+"-none", url+"/x")
			if err == nil {
				t.Error("a missing file was sent")
			}
			out, err := get.run(t.Context(), "put", filepath.Join(dir, "outside"), url+"/new")
			switch {
			case c.puts && err != nil:
				t.Errorf("an upload: %v, %s", err, out)
			case c.puts:
				again := filepath.Join(t.TempDir(), "again")
				do(t, get, "get", url+"/new", again)
				wantFile(t, again, content(10))
			case err == nil:
				t.Error("nginx took an upload")
			}
			sourceOverSFTP(t, h, source, c.puts, c.lacks)
		})
	}
}

// sourceOverSFTP serves an upstream over SFTP. With OpenSSH's sftp and with haul, users can list,
// get and put what the upstream permits, and the rest is refused.
func sourceOverSFTP(t *testing.T, h program, source string, puts bool, lacks string) {
	t.Helper()
	l, d := beginSFTPBy(t, h, source, "--users", usersFile(t), "--sftp-exempt", "127.0.0.0/8")
	tool, get := newSFTPTool(t, l), haul(t)
	config := l.sshConfig(t)
	if list := tool.list(t, "/"); !slices.Contains(list, "large") || !slices.Contains(list, "sub") {
		t.Errorf("sftp lists %q", list)
	}
	want := content(5<<20 + 3)
	for name, fetch := range map[string]func(local string){
		"sftp": func(local string) { tool.get(t, "large", local) },
		"haul": func(local string) { do(t, get, "get", "--batch", "-q", "-F", config, "server:large", local) },
	} {
		local := filepath.Join(t.TempDir(), name)
		fetch(local)
		wantFile(t, local, want)
	}
	local := filepath.Join(t.TempDir(), "sent")
	if err := os.WriteFile(local, content(1000), 0o600); err != nil {
		t.Fatal(err)
	}
	sftp := findOpenSSH(t, "sftp")
	sftp.args = []string{"-q", "-S", findOpenSSH(t, "ssh").path, "-F", config, "-b", "-"}
	for name, put := range map[string]func() error{
		"sftp": func() error { _, err := runTool(t, sftp, "put "+local+" by-sftp\n", "server"); return err },
		"haul": func() error {
			_, err := get.run(t.Context(), "put", "--batch", "-q", "-F", config, local, "server:by-haul")
			return err
		},
	} {
		err := put()
		switch {
		case puts && err != nil:
			t.Errorf("an upload by %s: %v", name, err)
		case puts:
			back := filepath.Join(t.TempDir(), "back")
			tool.get(t, "by-"+name, back)
			wantFile(t, back, content(1000))
		case err == nil:
			t.Errorf("nginx took an upload by %s", name)
		}
	}
	_, err := runTool(t, sftp, "mkdir made\n", "server")
	if refused := err != nil; refused != (lacks != "") {
		t.Errorf("mkdir: %v", err)
	}
	if lacks != "" && !d.awaitLine(t, lacks) {
		t.Errorf("the log has no %q", lacks)
	}
	if err := d.stop(); err != nil {
		t.Error(err)
	}
}

// sourceOfSSHD starts sshd, and returns haul in its own mount namespace, in which the user
// database names a home directory with the key for sshd.
func sourceOfSSHD(t *testing.T, dir string) (program, string) {
	needRoot(t, "a user database of its own takes a mount namespace")
	unshare := find(t, "util-linux", "unshare")
	l := startSSHD(t, dir, "Subsystem sftp internal-sftp")
	home := t.TempDir()
	host, port, err := net.SplitHostPort(l.addr)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write(".ssh/known_hosts", fmt.Sprintf("[%s]:%s %s", host, port, ssh.MarshalAuthorizedKey(l.host)))
	write(".ssh/config", fmt.Sprintf("Host nas\nHostName %s\nPort %s\nUser %s\nIdentityFile %s\nGlobalKnownHostsFile none\nIdentityAgent none\n", host, port, l.user, l.key))
	passwd := write("passwd", "root:x:0:0::"+home+":/bin/sh\n")
	h := haul(t)
	h.args = []string{"--mount", "sh", "-c", `mount --bind "$0" /etc/passwd && exec "$@"`, passwd, h.path}
	h.path = unshare.path
	return h, "sftp://nas" + l.home + "/top"
}
