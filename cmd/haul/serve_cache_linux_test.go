package main

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
)

// The successor after a reload has the cache, and fetches nothing that is in it, while the server
// before it completes a transfer of the same file from the cache.
func TestReloadKeepsCache(t *testing.T) {
	b := servetest.NewBucket(t)
	image := strings.Repeat("0123456789abcdef", 24<<20/16) // more than sockets buffer
	b.Put("image", image)
	file, dir := filepath.Join(t.TempDir(), "haul.toml"), filepath.Join(t.TempDir(), "cache")
	writeFile(t, file, fmt.Sprintf(`dirs = ["s3://bucket/"]
metrics.listen = "127.0.0.1:0"
[tftp]
listen = ["127.0.0.1:0"]
[http]
listen = ["127.0.0.1:0"]
[cache]
dir = %q
size = "64MiB"
`, dir))
	c := runChild(t, childOptions{env: b.Env()}, "serve", "--config", file)
	c.awaitURL()
	web := &httpChild{child: c}
	web.awaitHTTP("http")
	web.want(200, image, "GET /image", "")
	eventually(t, "all blocks are stored", func() bool {
		blocks, _ := filepath.Glob(filepath.Join(dir, "objects", "*", "[0-9]*-*"))
		return len(blocks) == len(image)>>20
	})
	slow, err := http.Get(web.at + "/image")
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Body.Close()
	first := make([]byte, 1<<20)
	if _, err := io.ReadFull(slow.Body, first); err != nil {
		t.Fatal(err)
	}
	web.client.CloseIdleConnections() // they belong to the first server
	c.signal(syscall.SIGHUP)
	pid := c.succeeded(1)
	c.awaitHeld(len(image)) // shown by the successor's metrics
	web.want(200, image, "GET /image", "")
	c.wantGet("image", image)
	c.wantMetric("haul_cache_fetches_total 0")
	if rest, err := io.ReadAll(slow.Body); err != nil || string(first)+string(rest) != image {
		t.Errorf("the transfer of the first server: %d bytes of %d, %v", len(first)+len(rest), len(image), err)
	}
	c.awaitEnd(c.cmd.Process.Pid)
	if n := b.Sent("image"); n != int64(len(image)) {
		t.Errorf("%d bytes of %d were fetched", n, len(image))
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.wantExit(0)
}

// awaitHeld waits until a cache holds n bytes, and has fetched none of them. Then the metrics are a
// successor's, and not those of the server before it, which may still answer.
func (c *child) awaitHeld(n int) {
	c.t.Helper()
	c.awaitPage("/metrics", "cache with all of it", func(_ int, body string) bool {
		_, rest, _ := strings.Cut(body, "\nhaul_cache_bytes ")
		var held float64
		_, _ = fmt.Sscan(rest, &held)
		return held >= float64(n) && strings.Contains(body, "\nhaul_cache_fetches_total 0\n")
	})
}

// With --user the cache belongs to that user, wherever it is, and the next server finds it again. A
// cache that the user cannot write to is refused.
func TestServeUserCache(t *testing.T) {
	needRoot(t)
	b := servetest.NewBucket(t)
	b.Put("image", "content")
	private := t.TempDir() // the user cannot enter this directory
	if err := os.Chmod(private, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(private, "cache")
	args := []string{"s3://bucket/", "--user", "4711:4712", "--http", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--cache-size", "64MiB", "--cache"}
	for range 2 {
		c := startChild(t, childOptions{env: b.Env()}, append(args, dir)...)
		c.wantGet("image", "content")
		web := &httpChild{child: c}
		web.awaitHTTP("http")
		web.want(200, "content", "GET /image", "")
		eventually(t, "the block is stored", func() bool {
			blocks, _ := filepath.Glob(filepath.Join(dir, "objects", "*", "0-*"))
			return len(blocks) == 1
		})
		wantThreads(t, c.cmd.Process.Pid, 4711, 4712, "")
		if said := c.stop(); strings.Contains(said, "level=WARN") {
			t.Errorf("said %s", said)
		}
	}
	if n := b.Sent("image"); n != int64(len("content")) {
		t.Errorf("it was fetched again: %d bytes", n)
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			wantOwner(t, path, 4711, 4712)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}

	// Now the cache belongs to another user.
	args[2] = "4713:4713"
	said := runChild(t, childOptions{env: b.Env()}, append(append([]string{"serve"}, args...), dir)...).wantExit(exitLocal)
	if !strings.Contains(said, dir) || !strings.Contains(said, "4711") || !strings.Contains(said, "chown") {
		t.Errorf("with the cache of another user it said %s", said)
	}
	// Without root, neither that directory nor a new one beside it can be used.
	openUp(t, private)
	attr := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4713, Gid: 4713}}
	for _, dir := range []string{dir, filepath.Join(private, "new")} {
		said := runChild(t, childOptions{env: b.Env(), attr: attr}, "serve", "s3://bucket/", "--tftp", "127.0.0.1:0", "--cache-size", "64MiB", "--cache", dir).wantExit(exitLocal)
		if !strings.Contains(said, dir) || !strings.Contains(said, "permission denied") && !strings.Contains(said, "belongs to user 4711") || !strings.Contains(said, "--cache") {
			t.Errorf("without root it said %s", said)
		}
	}
}
