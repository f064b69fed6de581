package sftpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
)

// openSSHServers are the places where systems have OpenSSH's sftp-server. Where
// it is elsewhere, SFTP_SERVER says so.
var openSSHServers = []string{
	"/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server", "/usr/libexec/sftp-server",
}

// openSSHServer returns OpenSSH's server, which speaks to its standard input and
// output. Without one a test is passed over, but not in CI.
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

func TestOpenSSHServerMovesFiles(t *testing.T) {
	for _, config := range []Config{{}, {NoReadAhead: true, NoWriteBehind: true}, {Requests: 1}, {RequestBytes: 8 << 10}} {
		c, dir := openSSHClient(t, config)
		for i, size := range fileSizes {
			name, data := fmt.Sprint("f", size), pattern(size, byte(i))
			if err := uploadAll(t.Context(), c, name, data); err != nil {
				t.Errorf("put %d bytes: %v", size, err)
			}
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, data) {
				t.Errorf("put %d bytes: the server has others, %v", size, err)
			}
			if err := fetchAndCompare(t.Context(), c, name, data); err != nil {
				t.Errorf("get %d bytes: %v", size, err)
			}
			f, err := c.Create(t.Context(), name+".copy")
			if err != nil {
				t.Fatal(err)
			}
			if n, err := io.Copy(f, bytes.NewReader(data)); n != int64(size) || err != nil {
				t.Errorf("io.Copy of %d bytes = %d, %v", size, n, err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if got, err := os.ReadFile(filepath.Join(dir, name+".copy")); err != nil || !bytes.Equal(got, data) {
				t.Errorf("io.Copy of %d bytes: the server has others, %v", size, err)
			}
		}
	}
}

func TestOpenSSHServerIsAStore(t *testing.T) {
	openSSHServer(t)
	storetest.Run(t, func(t *testing.T) store.Store {
		c, _ := openSSHClient(t, Config{})
		return c.Store("")
	})
}

func TestOpenSSHServerIsAnFS(t *testing.T) {
	c, dir := openSSHClient(t, Config{})
	files := []string{"a", "b/c", "b/d/e"}
	for _, name := range files {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(c.FS(dir), files...); err != nil {
		t.Error(err)
	}
}

func TestOpenSSHServerOperations(t *testing.T) {
	c, dir := openSSHClient(t, Config{})
	ctx := t.Context()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(what string, err error, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	check("MkdirAll", c.MkdirAll(ctx, "a/b/c", 0o755), nil)
	check("Mkdir again", c.Mkdir(ctx, "a/b/c", 0o755), fs.ErrExist)
	check("RemoveDir", c.RemoveDir(ctx, "a/b"), fs.ErrExist)
	check("Rename", c.Rename(ctx, "f", "a/g"), nil)
	check("Link", c.Link(ctx, "a/g", "h"), nil)
	check("Link over", c.Link(ctx, "a/g", "h"), fs.ErrExist)
	check("Move over", c.Move(ctx, "h", "a/g"), fs.ErrExist)
	check("Symlink", c.Symlink(ctx, "g", "a/link"), nil)
	check("Symlink over", c.Symlink(ctx, "g", "a/link"), fs.ErrExist)
	if target, err := os.Readlink(filepath.Join(dir, "a/link")); target != "g" || err != nil {
		t.Errorf("the link says %q, %v", target, err)
	}
	target, err := c.Readlink(ctx, "a/link")
	check("Readlink", err, nil)
	if target != "g" {
		t.Errorf("Readlink = %q", target)
	}
	check("Readlink of a file", second(c.Readlink(ctx, "a/g")), fs.ErrInvalid)
	real, err := c.RealPath(ctx, "a/../a/link")
	check("RealPath", err, nil)
	if real != filepath.Join(dir, "a/g") {
		t.Errorf("RealPath = %q", real)
	}
	check("Chmod", c.Chmod(ctx, "a/g", 0o640), nil)
	if fi, err := os.Stat(filepath.Join(dir, "a/g")); err != nil || fi.Mode() != 0o640 {
		t.Errorf("after Chmod: %v, %v", fi, err)
	}
	check("Truncate", c.Truncate(ctx, "a/g", 4), nil)
	if s, err := c.Space(ctx, "."); err != nil || s.Total < 1<<20 || s.Available > s.Free || s.MaxName < 100 {
		t.Errorf("Space = %+v, %v", s, err)
	}
	if c.Offers("copy-data") {
		n, err := c.CopyFile(ctx, "a/g", "copy")
		check("CopyFile", err, nil)
		if got, err := os.ReadFile(filepath.Join(dir, "copy")); n != 4 || string(got) != "0123" || err != nil {
			t.Errorf("CopyFile = %d, there is %q, %v", n, got, err)
		}
	}
	if c.Offers("users-groups-by-id@openssh.com") {
		users, groups, err := c.OwnerNames(ctx, []uint32{0, 4_000_000_000}, []uint32{0})
		check("OwnerNames", err, nil)
		if len(users) != 2 || users[0] != "root" || users[1] != "" || len(groups) != 1 {
			t.Errorf("OwnerNames = %q, %q", users, groups)
		}
	}
	for i := range 1000 {
		if err := os.WriteFile(filepath.Join(dir, "a/b/c", fmt.Sprint("f", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := c.ReadDir(ctx, "a/b/c")
	check("ReadDir", err, nil)
	if len(list) != 1000 {
		t.Errorf("ReadDir = %d entries", len(list))
	}
	check("RemoveAll", c.RemoveAll(ctx, "a"), nil)
	if _, err := os.Lstat(filepath.Join(dir, "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after RemoveAll: %v", err)
	}
}
