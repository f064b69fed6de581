package sftpclient

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
)

// openSSHServers are the paths of OpenSSH's sftp-server on various systems. SFTP_SERVER may name
// another path.
var openSSHServers = []string{
	"/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server", "/usr/libexec/sftp-server",
}

// openSSHServer returns the path of OpenSSH's server, which uses its standard input and output.
// If the machine has no such server, the test is skipped, except in CI.
func openSSHServer(t testing.TB) string {
	for _, name := range append([]string{os.Getenv("SFTP_SERVER")}, openSSHServers...) {
		if fi, err := os.Stat(name); err == nil && fi.Mode().IsRegular() {
			return name
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("OpenSSH's sftp-server is not installed")
	}
	t.Skip("OpenSSH's sftp-server is not installed")
	return ""
}

// A processCarrier starts a server for each session.
type processCarrier struct {
	server, dir string
	wait        sync.WaitGroup
}

type processStream struct {
	*io.PipeReader
	in io.WriteCloser
}

func (s processStream) Write(p []byte) (int, error) { return s.in.Write(p) }

func (s processStream) Close() error {
	_ = s.PipeReader.Close()
	return s.in.Close()
}

func (c *processCarrier) Open(context.Context, bool) (io.ReadWriteCloser, error) {
	cmd := exec.Command(c.server, "-d", c.dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	c.wait.Go(func() {
		_, _ = io.Copy(w, out)
		_ = w.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	return processStream{r, in}, nil
}

func (c *processCarrier) Ping() error  { return nil }
func (c *processCarrier) Close() error { return nil }

func openSSHClient(t testing.TB, config Config) (c *Client, dir string) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return openSSHClientIn(t, config, dir), dir
}

func openSSHClientIn(t testing.TB, config Config, dir string) *Client {
	carrier := &processCarrier{server: openSSHServer(t), dir: dir}
	c, err := newClient(context.Background(), carrier, true, config, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		carrier.wait.Wait()
	})
	return c
}

func writeFile(t testing.TB, dir, name string, data []byte) {
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOpenSSHServerIsAStore(t *testing.T) {
	openSSHServer(t)
	storetest.Run(t, func(t *testing.T) store.Store {
		c, _ := openSSHClient(t, Config{})
		return c.Store("")
	})
}
