//go:build unix

package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/haul-project/haul/internal/serve"
)

// reloadVar has a child reload at SIGHUP.
const reloadVar = "HAUL_TEST_RELOAD"

func init() {
	if os.Getenv(reloadVar) == "" || os.Getenv(asHaul) == "" {
		return
	}
	runServer = func(ctx context.Context, cfg serve.Config, out io.Writer) error {
		cfg.Reload = true
		return serve.Run(ctx, cfg, out)
	}
}

// reloads are the options of a server that reloads.
var reloads = childOptions{env: []string{reloadVar + "=1"}}

// SIGHUP starts a successor. One that fails reports why in the log of the server, which
// continues to serve.
func TestReload(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "files")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "kernel"), "image")
	c := startChild(t, reloads, dir)
	c.wantGet("kernel", "image") // it serves by now
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	c.signal(syscall.SIGHUP)
	said := c.await("level=ERROR", "\n")
	_, line, _ := strings.Cut(said, "level=ERROR")
	for _, want := range []string{"reload: there is no successor", "the previous configuration", dir, "no such file", "exit status"} {
		if !strings.Contains(line, want) {
			t.Errorf("logged %s, want %q", line, want)
		}
	}
	c.wantGet("kernel", "image")

	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	c.signal(syscall.SIGHUP)
	pid := c.succeeded(1)
	c.awaitEnd(c.cmd.Process.Pid)
	c.wantGet("kernel", "image")
	if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	next := c.succeeded(2)
	c.awaitEnd(pid)
	c.wantGet("kernel", "image")
	if err := syscall.Kill(next, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.wantExit(0)
}

// A SIGHUP for a server that has a successor is for that: its sender may not know it yet.
func TestReloadRetired(t *testing.T) {
	c := startChild(t, reloads, bigDir(t))
	transfer := c.halfway("kernel")
	c.signal(syscall.SIGHUP)
	c.succeeded(1)
	c.signal(syscall.SIGHUP)
	c.succeeded(2)
	c.signal(syscall.SIGHUP)
	last := c.succeeded(3)
	for block := byte(2); block < 5; block++ {
		transfer.send(ack(block))
		if block < 4 {
			transfer.wantData(block + 1)
		}
	}
	c.awaitEnd(c.cmd.Process.Pid)
	if err := syscall.Kill(last, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.wantExit(0)
}
