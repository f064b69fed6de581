//go:build unix

package main

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// halfway begins to fetch a file, and stops in the middle. Because of the timeout that it requests,
// the server waits for the next ACK for five minutes instead of half a minute.
func (c *child) halfway(name string) *rawClient {
	c.t.Helper()
	r := c.dial()
	r.send(readRequest(name) + "timeout\x0060\x00")
	r.want("\x00\x06timeout\x0060\x00")
	r.send(ack(0))
	r.wantData(1)
	r.send(ack(1))
	r.wantData(2)
	return r
}

// wantData waits for a block. It skips repetitions of the block before and of packets that want has
// received, which occur on a busy machine.
func (r *rawClient) wantData(block byte) (last bool) {
	r.t.Helper()
	for {
		got := r.receive()
		switch {
		case strings.HasPrefix(got, "\x00\x03\x00"+string(block)):
			return len(got) < 4+512
		case strings.HasPrefix(got, "\x00\x03\x00"+string(block-1)), slices.Contains(r.had, got):
		default:
			r.t.Fatalf("got %q, want DATA %d", got[:min(len(got), 40)], block)
		}
	}
}

// wantError waits for an ERROR packet.
func (r *rawClient) wantError(says string) {
	r.t.Helper()
	for {
		got := r.receive()
		switch got[:2] {
		case "\x00\x03": // a repetition
		case "\x00\x05":
			if !strings.Contains(got, says) {
				r.t.Errorf("got ERROR %q, want %q", got[2:], says)
			}
			return
		default:
			r.t.Fatalf("got %q, want ERROR", got[:min(len(got), 40)])
		}
	}
}

// bigDir creates a directory with a file of four blocks.
func bigDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "kernel"), strings.Repeat("x", 3*512+1))
	return dir
}

// Without transfers there is nothing to wait for. The log names the signal.
func TestServeEndsIdle(t *testing.T) {
	for signal, name := range map[syscall.Signal]string{
		syscall.SIGTERM: "terminated", syscall.SIGINT: "interrupt", syscall.SIGHUP: "hangup",
	} {
		c := startChild(t, childOptions{}, t.TempDir(), "--grace", "1h")
		c.wantNoGet("none", exitNotFound)
		c.signal(signal)
		if said := c.wantExit(0); strings.Count(said, "signal received") != 1 || !strings.Contains(said, "signal="+name) {
			t.Errorf("%v is not in the log", signal)
		}
	}
}

// A transfer that does not end within the grace period is ended with an error.
func TestServeGraceRunsOut(t *testing.T) {
	t.Parallel() // it waits most of the time
	c := startChild(t, childOptions{}, bigDir(t), "--grace", "1s")
	r := c.halfway("kernel")
	c.signal(syscall.SIGTERM)
	r.wantError("shutting down")
	said := c.wantExit(0)
	if !strings.Contains(said, "result=failed direction=read file=kernel") || !strings.Contains(said, "shutting down") {
		t.Error("the log does not say what became of the transfer")
	}
}

// A transfer that ends within the grace period is complete. Meanwhile the metrics show it, and load
// balancers and new clients are refused.
func TestServeGraceIsUsed(t *testing.T) {
	c := startChild(t, childOptions{}, bigDir(t), "--grace", "1h", "--metrics", "127.0.0.1:0")
	r := c.halfway("kernel")
	c.signal(syscall.SIGTERM)
	c.wantDraining()
	c.wantMetric(`haul_transfers_live{direction="read",protocol="tftp"} 1`)
	for block := byte(2); ; block++ {
		r.send(ack(block))
		if block == 4 {
			break
		}
		r.wantData(block + 1)
	}
	said := c.wantExit(0)
	if !strings.Contains(said, "result=done direction=read file=kernel") {
		t.Error("the log does not have a transfer that is done")
	}
}

// wantDraining waits until the health page says that the server is draining.
func (c *child) wantDraining() {
	c.t.Helper()
	c.awaitPage("/healthz", "draining", func(status int, body string) bool {
		return status == http.StatusServiceUnavailable && body == "draining\n"
	})
}

func TestServeSecondSignal(t *testing.T) {
	for _, second := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		c := signalledAtOnce(t)
		c.wantDraining()
		c.signal(second)
		if said := c.wantExit(exitInterrupted); !strings.Contains(said, "haul: second signal, ending at once\n") {
			t.Error("it does not say why it ends")
		}
	}
}

// signalledAtOnce starts a server with a transfer in progress, and sends it two signals at once.
// The latter does not count as a second one: see sameSignal.
func signalledAtOnce(t *testing.T) *child {
	t.Helper()
	for range 5 { // on a busy machine, they may not arrive at once
		c := startChild(t, childOptions{}, bigDir(t), "--grace", "1h", "--metrics", "127.0.0.1:0")
		c.halfway("kernel")
		c.signal(syscall.SIGTERM)
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
		time.Sleep(2 * sameSignal)
		if !c.ended() {
			return c
		}
	}
	t.Fatal("two signals at once end it at once")
	panic("unreachable")
}
