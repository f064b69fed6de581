package tftp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/internal/repeat"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/store/storetest"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// serve runs a server on the loopback interface until the test ends, and then checks for
// leftovers.
func serve(t testing.TB, s Config) *Server {
	t.Helper()
	return serveAt(t, testHooks{}, s, "127.0.0.1:0")
}

func serveAt(t testing.TB, hooks testHooks, s Config, addr string) *Server {
	t.Helper()
	repeat.OnFailure(t)
	ctx, stop := context.WithCancel(context.Background())
	l, err := listen(ctx, hooks, s, addr)
	if err != nil {
		stop()
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- l.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		wantIdle(t, l)
	})
	return l
}

// at returns a target for a file on a real server.
func at(l *Server, name string) tftpclient.Target {
	return tftpclient.Target{Host: "127.0.0.1", Port: l.Addr().Port(), Name: name}
}

// bothWays runs a test with the kernel's offloads, and without them.
func bothWays(t *testing.T, f func(t *testing.T, plain bool)) {
	for _, plain := range []bool{false, true} {
		t.Run(fmt.Sprintf("plain=%v", plain), func(t *testing.T) { f(t, plain) })
	}
}

// TestLoopback moves files in both directions on the loopback interface, with sizes around every
// boundary, and with options of every kind.
func TestLoopback(t *testing.T) {
	bothWays(t, func(t *testing.T, plain bool) {
		mem := store.Mem(1 << 30)
		l := serve(t, Config{Store: mem, Upload: OverwriteUploads, Plain: plain})
		options := map[string]*tftpclient.Client{
			"none":     {NoOptions: true},
			"defaults": {},
			"lockstep": {BlockSize: 512, Window: 1},
			"window":   {BlockSize: 1428, Window: 16, Timeout: 2 * time.Second},
			"large":    {BlockSize: transfer.MaxBlockSize, Window: 4, MicroTimeout: 500 * time.Millisecond},
			"tiny":     {BlockSize: 8, Window: 64, Rollover: transfer.RolloverZero},
		}
		for name, c := range options {
			block := c.BlockSize
			if block == 0 {
				block = 512
			}
			sizes := []int{0, 1, 511, 512, 513, block - 1, block, block + 1, 16*block - 1, 16 * block, 100_001}
			for _, size := range sizes {
				thereAndBack(t, c, l, mem, fmt.Sprintf("%s-%d", name, size), size)
			}
			defer c.Wait() // wait for all clients at the end, because each wait takes a while
		}
	})
}

// thereAndBack sends a file of the given size, asks for its size, and fetches it.
func thereAndBack(t *testing.T, c *tftpclient.Client, l *Server, mem store.Store, name string, size int) {
	t.Helper()
	want := tftptest.Content(name, size)
	ctx := t.Context()
	res, err := c.Put(ctx, at(l, name), bytes.NewReader(want), int64(size))
	if err != nil || res.Bytes != int64(size) {
		t.Errorf("put %s: %d bytes, %v", name, res.Bytes, err)
		return
	}
	tftptest.WantFile(t, mem, name, want)
	n, err := c.Size(ctx, at(l, name))
	switch {
	case c.NoOptions && size >= 512:
		if !errors.Is(err, tftpclient.ErrNoSize) {
			t.Errorf("size of %s: %d, %v, want ErrNoSize", name, n, err)
		}
	case err != nil || n != int64(size):
		t.Errorf("size of %s: %d, %v", name, n, err)
	}
	here := store.Mem(1 << 30)
	said := int64(-2)
	res, err = c.Get(ctx, at(l, name), func(n int64) (store.Upload, error) {
		said = n
		return here.Create(ctx, name, store.Create{Size: n})
	})
	if err != nil || res.Bytes != int64(size) {
		t.Errorf("get %s: %d bytes, %v", name, res.Bytes, err)
		return
	}
	if said != int64(size) && said != -1 || said == -1 && size > 0 && !c.NoOptions {
		t.Errorf("get %s: create got %d bytes", name, said)
	}
	tftptest.WantFile(t, here, name, want)
}

// TestRollover transfers files with more blocks than there are block numbers, with both values of
// the rollover.
func TestRollover(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	bothWays(t, func(t *testing.T, plain bool) {
		mem := store.Mem(1 << 30)
		l := serve(t, Config{Store: mem, Upload: OverwriteUploads, Plain: plain})
		for _, roll := range []transfer.Rollover{transfer.RolloverDefault, transfer.RolloverZero, transfer.RolloverOne} {
			c := tftpclient.Client{BlockSize: 8, Window: 64, Rollover: roll, Plain: plain}
			sizes := []int{65535, 65536}
			if race.Enabled { // only one goroutine does the work
				sizes = sizes[1:]
			}
			for _, blocks := range sizes {
				thereAndBack(t, &c, l, mem, fmt.Sprintf("%d-%d", roll, blocks), blocks*8+3)
			}
			if !plain && !race.Enabled {
				thereAndBack(t, &c, l, mem, fmt.Sprintf("%d-twice", roll), (2*65536+7)*8)
			}
			defer c.Wait()
		}
		if !plain && !race.Enabled {
			c := tftpclient.Client{BlockSize: 8, Window: 1}
			thereAndBack(t, &c, l, mem, "lockstep", 65536*8+1)
			c.Wait()
		}
	})
}

// Text is translated during a transfer, and arrives unchanged.
func TestNetascii(t *testing.T) {
	texts := map[string]string{
		"empty": "", "lines": "one\ntwo\n", "cr": "\r", "lf": "\n", "crs": "\r\r\r\n\r\n\n\r", "nul": "a\x00b\r\x00c",
		"long":   strings.Repeat("line\n", 5000),
		"edge":   strings.Repeat("x", 511) + "\n" + strings.Repeat("y", 511) + "\r",
		"binary": string(tftptest.Content("binary", 100_000)),
		"dense":  "x" + strings.Repeat("\n", 20_000) + "\r" + strings.Repeat("y", 9000),
	}
	bothWays(t, func(t *testing.T, plain bool) {
		mem := store.Mem(1 << 30)
		l := serve(t, Config{Store: mem, Upload: OverwriteUploads, Plain: plain})
		for _, c := range []*tftpclient.Client{{NoOptions: true}, {BlockSize: 512, Window: 8}, {BlockSize: 8, Window: 3}, {}} {
			for name, text := range texts {
				to := at(l, name)
				to.Mode = transfer.Netascii
				if _, err := c.Put(t.Context(), to, strings.NewReader(text), int64(len(text))); err != nil {
					t.Errorf("put %s: %v", name, err)
					continue
				}
				tftptest.WantFile(t, mem, name, []byte(text))
				here := store.Mem(1 << 30)
				if _, err := c.Get(t.Context(), to, tftptest.Into(here, name)); err != nil {
					t.Errorf("get %s: %v", name, err)
					continue
				}
				tftptest.WantFile(t, here, name, []byte(text))
			}
			defer c.Wait()
		}
	})
}

// TestUploadRules checks which uploads are allowed, and up to which size.
func TestUploadRules(t *testing.T) {
	const limit = 10_000
	big, small := tftptest.Content("big", limit+1), tftptest.Content("small", limit)
	tests := []struct {
		uploads Uploads
		name    string
		b       []byte
		plain   bool // no options: the size is not known in advance
		code    transfer.ErrorCode
		ok      bool
	}{
		{NoUploads, "new", small, false, transfer.AccessViolation, false},
		{NoUploads, "old", small, false, transfer.AccessViolation, false},
		{CreateUploads, "new", small, false, 0, true},
		{CreateUploads, "old", small, false, transfer.FileExists, false},
		{CreateUploads, "dir", small, false, transfer.FileExists, false},
		{OverwriteUploads, "new", small, false, 0, true},
		{OverwriteUploads, "old", small, false, 0, true},
		{OverwriteUploads, "old", nil, true, 0, true},
		{OverwriteUploads, "dir", small, false, transfer.AccessViolation, false},
		{OverwriteUploads, "dir/none/new", small, false, transfer.FileNotFound, false},
		{OverwriteUploads, "old", big, false, transfer.DiskFull, false},
		{OverwriteUploads, "old", big, true, transfer.DiskFull, false},
		{OverwriteUploads, "../new", small, false, transfer.AccessViolation, false},
	}
	for i, test := range tests {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			dir, st := realDir(t)
			writeFile(t, dir, "old", "as it was")
			writeFile(t, dir, "dir/file", "")
			l := serve(t, Config{Store: st, Upload: test.uploads, MaxUpload: limit})
			c := tftpclient.Client{NoOptions: test.plain}
			_, err := c.Put(t.Context(), at(l, test.name), bytes.NewReader(test.b), int64(len(test.b)))
			if test.ok {
				if err != nil {
					t.Errorf("put: %v", err)
				}
				tftptest.WantFile(t, st, test.name, test.b)
			} else {
				tftptest.WantFault(t, err, test.code)
				tftptest.WantFile(t, st, "old", []byte("as it was"))
				if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
					t.Error("the new file exists")
				}
			}
			wantNoTemps(t, dir)
		})
	}
}

// realDir returns a directory and the store in it.
func realDir(t testing.TB) (string, *localdir.Dir) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return dir, localdir.New(root)
}

func writeFile(t testing.TB, dir, name, content string) {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// wantNoTemps waits until the temporary files of uploads are gone. A worker closes the files of
// uploads that a loop has given up.
func wantNoTemps(t testing.TB, dir string) {
	t.Helper()
	var left []string
	for deadline := time.Now().Add(tftptest.Patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		left = nil
		err := filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
			if strings.HasPrefix(filepath.Base(p), ".haul-") {
				left = append(left, p)
			}
			if errors.Is(err, os.ErrNotExist) {
				err = nil // it disappeared meanwhile
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
	}
	t.Errorf("temporary files left: %q", left)
}

// GetFile and PutFile transfer real files on both sides.
func TestFiles(t *testing.T) {
	there, st := realDir(t)
	l := serve(t, Config{Store: st, Upload: CreateUploads})
	here := t.TempDir()
	writeFile(t, here, "a", string(tftptest.Content("a", 300_000)))
	var c tftpclient.Client
	url := at(l, "b").String()
	if _, err := c.PutFile(t.Context(), filepath.Join(here, "a"), url); err != nil {
		t.Fatal(err)
	}
	tftptest.WantFile(t, st, "b", tftptest.Content("a", 300_000))
	to := filepath.Join(here, "c")
	if _, err := c.GetFile(t.Context(), url, to); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(to); err != nil || !bytes.Equal(b, tftptest.Content("a", 300_000)) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	_, err := c.GetFile(t.Context(), at(l, "missing").String(), to)
	tftptest.WantFault(t, err, transfer.FileNotFound)
	if b, _ := os.ReadFile(to); len(b) != 300_000 {
		t.Error("a fetch that failed touched the file that was there")
	}
	if _, err := c.GetFile(t.Context(), url, filepath.Join(here, "no/such/dir")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	if _, err := c.PutFile(t.Context(), filepath.Join(here, "missing"), url); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := c.PutFile(t.Context(), here, url); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("directory: %v", err)
	}
	c.Wait()
	wantNoTemps(t, there)
	wantNoTemps(t, here)
}

// Listen accepts addresses in all forms, and reports ports that are in use.
func TestListen(t *testing.T) {
	mem := store.Mem(0)
	storetest.Put(t, mem, "hello", []byte("hello"))
	for _, addr := range []string{"127.0.0.1:0", "localhost:0", ":0", "0.0.0.0:0", "[::1]:0", "[::]:0"} {
		t.Run(addr, func(t *testing.T) {
			if strings.HasPrefix(addr, "[") && !hasIPv6(t) {
				t.Skip("this host has no IPv6")
			}
			l := serveAt(t, testHooks{spread: true}, Config{Store: mem, Loops: 3}, addr)
			host := l.Addr().Addr()
			if host.IsUnspecified() {
				host = netip.MustParseAddr("127.0.0.1")
				if strings.HasPrefix(addr, "[") {
					host = netip.IPv6Loopback()
				}
			}
			c := tftpclient.Client{}
			here := store.Mem(0)
			to := tftpclient.Target{Host: host.String(), Port: l.Addr().Port(), Name: "hello"}
			if _, err := c.Get(t.Context(), to, tftptest.Into(here, "hello")); err != nil {
				t.Error(err)
			}
			tftptest.WantFile(t, here, "hello", []byte("hello"))
			c.Wait()
			for _, loops := range []int{1, 3} {
				s := Config{Store: mem, Loops: loops}
				if _, err := listen(t.Context(), testHooks{spread: true}, s, l.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
					t.Errorf("the same port again, %d loops: %v", loops, err)
				}
			}
		})
	}
	s := Config{Store: mem}
	for _, addr := range []string{"", "nonsense", "127.0.0.1", "127.0.0.1:http-no-such", "127.0.0.1:99999", "192.0.2.1:0"} {
		if _, err := s.Listen(t.Context(), addr); err == nil || !strings.Contains(err.Error(), "listen on "+addr) {
			t.Errorf("listen on %q: %v", addr, err)
		}
	}
	if _, err := new(Config).Listen(t.Context(), "127.0.0.1:0"); err == nil {
		t.Error("a server without a store")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Listen(ctx, "127.0.0.1:0"); !errors.Is(err, context.Canceled) {
		t.Errorf("listen after the end: %v", err)
	}
}

func hasIPv6(t *testing.T) bool {
	conn, err := udp.Listen(t.Context(), netip.AddrPortFrom(netip.IPv6Loopback(), 0), udp.Config{})
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// If no server listens on the port, the kernel reports that to the client, if it can.
func TestRefused(t *testing.T) {
	conn, err := udp.Listen(t.Context(), netip.MustParseAddrPort("127.0.0.1:0"), udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	port := conn.LocalAddr().Port()
	conn.Close()
	if !udp.CanSharePort {
		t.Skip("this path hears of no refusals, and would wait for an answer")
	}
	var c tftpclient.Client
	to := tftpclient.Target{Host: "127.0.0.1", Port: port, Name: "a"}
	if _, err := c.Get(t.Context(), to, nil); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("get: %v", err)
	}
	if _, err := c.Put(t.Context(), to, strings.NewReader("a"), 1); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("put: %v", err)
	}
}
