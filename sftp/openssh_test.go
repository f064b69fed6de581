package sftp

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/haul-project/haul/store/localdir"
)

// An openSSHClient runs the clients of OpenSSH against a server on a real socket, with a real
// directory.
type openSSHClient struct {
	t       *testing.T
	served  string   // the served directory
	local   string   // the client's directory
	port    string   // the server's port on the loopback interface
	keyFile string   // path of the private key for the login
	hostKey string   // public key of the server, in base64
	options []string // options of ssh
}

// newOpenSSHClient skips the test if the program is missing.
func newOpenSSHClient(t *testing.T, program string, set func(*Account)) *openSSHClient {
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	o := &openSSHClient{t: t, served: t.TempDir(), local: t.TempDir()}
	root, err := os.OpenRoot(o.served)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "test")
	if err != nil {
		t.Fatal(err)
	}
	keyFile, knownFile := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "known")
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	mine, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	w := newTestServer(t, func(w *testServer, s *Server) {
		s.SSH = func(context.Context, net.Conn) (*ssh.ServerConfig, error) {
			c := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
				if !bytes.Equal(k.Marshal(), mine.Marshal()) {
					return nil, errors.New("another key")
				}
				return nil, nil
			}}
			c.AddHostKey(w.key)
			return c, nil
		}
		s.Login = func(context.Context, *ssh.ServerConn) (*Account, error) {
			a := &Account{Tree: localdir.New(root)}
			if set != nil {
				set(a)
			}
			return a, nil
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.conns.Go(func() {
		if err := w.server.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(cancel)
	known := knownhosts.Line([]string{l.Addr().String()}, w.key.PublicKey())
	if err := os.WriteFile(knownFile, []byte(known+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, o.port, _ = net.SplitHostPort(l.Addr().String())
	o.keyFile, o.hostKey = keyFile, base64.StdEncoding.EncodeToString(w.key.PublicKey().Marshal())
	for _, option := range []string{
		"Port=" + o.port, "IdentityFile=" + keyFile, "IdentitiesOnly=yes", "UserKnownHostsFile=" + knownFile,
		"GlobalKnownHostsFile=/dev/null", "StrictHostKeyChecking=yes", "BatchMode=yes", "LogLevel=ERROR", "User=alice",
	} {
		o.options = append(o.options, "-o", option)
	}
	return o
}

// run runs a client in the local directory, and returns its output.
func (o *openSSHClient) run(program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(o.t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, program, append(append([]string{"-F", "/dev/null"}, o.options...), args...)...)
	c.Dir = o.local
	c.WaitDelay = patience
	b, err := c.CombinedOutput()
	return string(b), err
}

// batch runs commands in sftp. All must succeed, except those that begin with a dash.
func (o *openSSHClient) batch(commands ...string) string {
	o.t.Helper()
	file := filepath.Join(o.t.TempDir(), "batch")
	if err := os.WriteFile(file, []byte(strings.Join(commands, "\n")+"\n"), 0o600); err != nil {
		o.t.Fatal(err)
	}
	out, err := o.run("sftp", "-b", file, "127.0.0.1")
	if err != nil {
		o.t.Fatalf("%q: %v\n%s", commands, err, out)
	}
	return out
}

func (o *openSSHClient) file(dir, name string, data string) {
	o.t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
		o.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
		o.t.Fatal(err)
	}
}

func (o *openSSHClient) want(dir, name, data string) {
	o.t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || string(b) != data {
		o.t.Errorf("%s holds %d bytes, %v; want %d", name, len(b), err, len(data))
	}
}

// inBothModes runs a test with uploads in place, and with hidden uploads.
func inBothModes(t *testing.T, program string, test func(o *openSSHClient)) {
	for _, hidden := range []bool{false, true} {
		t.Run(map[bool]string{false: "in place", true: "hidden"}[hidden], func(t *testing.T) {
			test(newOpenSSHClient(t, program, func(a *Account) { a.Hidden = hidden }))
		})
	}
}

func TestOpenSSHCommands(t *testing.T) {
	inBothModes(t, "sftp", func(o *openSSHClient) {
		t := o.t
		data := testBytes(3 << 20)
		o.file(o.local, "up", data)
		if err := os.Chmod(filepath.Join(o.local, "up"), 0o640); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(o.local, "up"), testTime, testTime); err != nil {
			t.Fatal(err)
		}
		out := o.batch(
			"pwd",
			"mkdir dir",
			"-mkdir dir",
			"put -p up dir/file",
			"cd dir",
			"pwd",
			"ls -la",
			"rename file moved",
			"ln moved linked",
			"ln -s moved soft",
			"-ln moved linked",
			"chmod 600 moved",
			"ls -l soft",
			"df",
			"get -p moved",
			"-get none",
			"-put up none/file",
			"cd ..",
			"cp dir/moved dir/copied",
			"get dir/copied",
			"rm dir/copied",
			"rm dir/linked",
			"rm dir/soft",
			"-rmdir dir",
			"rename dir/moved kept",
			"rmdir dir",
			"-rm dir",
			"ls -n",
		)
		o.want(o.served, "kept", data)
		o.want(o.local, "moved", data)
		o.want(o.local, "copied", data)
		for _, name := range []string{filepath.Join(o.served, "kept"), filepath.Join(o.local, "moved")} {
			fi, err := os.Stat(name)
			if err != nil || !fi.ModTime().Equal(testTime) || fi.Mode().Perm() != 0o600 {
				t.Errorf("%s is %v, %v", name, fi, err)
			}
		}
		if left, _ := os.ReadDir(o.served); len(left) != 1 {
			t.Errorf("left is %v", left)
		}
		for _, want := range []string{
			"Remote working directory: /\n", "Remote working directory: /dir\n", "moved", "Avail",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is not in\n%s", want, out)
			}
		}
		if !strings.Contains(out, "not found") && !strings.Contains(out, "No such file") {
			t.Errorf("nothing says that a file is missing:\n%s", out)
		}
	})
}
