//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/cmd/haul/internal/server/status"
)

// reloadVar makes a child reload on SIGHUP. It names a JSON file with settings that override those
// of the command line.
const reloadVar = "HAUL_TEST_RELOAD"

func init() {
	file := os.Getenv(reloadVar)
	if file == "" || os.Getenv(asHaul) == "" {
		return
	}
	run := runServer
	runServer = func(ctx context.Context, cfg settings.Config, out io.Writer) error {
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &cfg)
		}
		if err != nil {
			return err
		}
		cfg.File = file
		return run(ctx, cfg, out)
	}
}

// newReloads returns the options of a server that reloads, and a function that changes its
// settings.
func newReloads(t *testing.T) (o childOptions, set func(text string)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "settings")
	set = func(text string) { writeFile(t, file, text) }
	set("{}")
	return childOptions{env: []string{reloadVar + "=" + file}}, set
}

// SIGHUP starts a successor. If it fails, the server's log has the reason, and the server continues
// to serve.
func TestReload(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "files")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "kernel"), "image")
	o, set := newReloads(t)
	c := startChild(t, o, dir)
	c.wantGet("kernel", "image") // it serves now
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
	set("nonsense") // it fails before the server is set up
	c.signal(syscall.SIGHUP)
	c.await("level=ERROR", "level=ERROR", "invalid character")
	set("{}")

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

// The successor reads the configuration file again. Here the new file refuses an option.
func TestReloadFile(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(first, "kernel"), "first")
	writeFile(t, filepath.Join(second, "kernel"), "second")
	file := filepath.Join(t.TempDir(), "haul.toml")
	set := func(dir, more string) {
		writeFile(t, file, fmt.Sprintf("dirs = [%q]\n[tftp]\nlisten = [\"127.0.0.1:0\"]\n%s", dir, more))
	}
	set(first, "")
	c := runChild(t, childOptions{}, "serve", "--config", file)
	c.awaitURL()
	c.wantGet("kernel", "first")
	wantAnswer := func(answer string) {
		t.Helper()
		r := c.dial()
		r.send("\x00\x01kernel\x00octet\x00blksize\x00600\x00")
		r.want(answer)
		r.send("\x00\x05\x00\x00enough\x00")
	}
	wantAnswer("\x00\x06blksize\x00600\x00")
	set(second, "singel_port = true\n")
	c.signal(syscall.SIGHUP)
	c.await("level=ERROR", "reload: there is no successor", file, "singel_port", "\n")
	c.wantGet("kernel", "first")
	set(second, "refuse = ['blksize 127.0.0.0/8']\n")
	c.signal(syscall.SIGHUP)
	pid := c.succeeded(1)
	c.awaitEnd(c.cmd.Process.Pid)
	c.wantGet("kernel", "second")
	wantAnswer("\x00\x03\x00\x01second")
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.wantExit(0)
}

// A SIGHUP for a server with a successor is forwarded to the successor, since its sender may not
// know it yet.
func TestReloadRetired(t *testing.T) {
	o, _ := newReloads(t)
	c := startChild(t, o, bigDir(t))
	transfer := c.halfway("kernel")
	c.signal(syscall.SIGHUP)
	c.succeeded(1)
	c.signal(syscall.SIGHUP)
	last := c.succeeded(2)
	transfer.end()
	c.awaitEnd(c.cmd.Process.Pid)
	if err := syscall.Kill(last, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.wantExit(0)
}

// end fetches the rest of a file of four blocks.
func (r *rawClient) end() {
	r.t.Helper()
	for block := byte(2); block < 5; block++ {
		r.send(ack(block))
		if block < 4 {
			r.wantData(block + 1)
		}
	}
}

// A successor keeps the sockets of addresses that are still configured, opens new ones, and closes
// the others.
func TestReloadAddresses(t *testing.T) {
	content := strings.Repeat("x", 3*512+1)
	o, set := newReloads(t)
	c := startChild(t, o, bigDir(t), "--http", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--status", "127.0.0.1:0")
	web := &httpChild{child: c}
	web.awaitHTTP("http")
	metrics := wordAfter(c.await("metrics at ", "/metrics"), "metrics at http://")
	metrics = strings.TrimSuffix(metrics, "/metrics")
	page := c.statusURL()
	pid := c.cmd.Process.Pid
	n := 0
	reload := func(settings string) (said string) {
		t.Helper()
		before := len(c.stderr.String())
		set(settings)
		if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		n++
		pid = c.succeeded(n)
		return c.stderr.String()[before:]
	}
	first := c.url
	c.wantPut("kernel", "other", exitRefused)
	transfer := c.halfway("kernel")
	metric := func(want string) {
		t.Helper()
		got, err := fetchOnce(http.DefaultClient, page+"/metrics")
		http.DefaultClient.CloseIdleConnections()
		if err != nil || !strings.Contains(got, "\n"+want+"\n") {
			t.Errorf("the metrics have no %s: %v", want, err)
		}
	}

	// Add a TFTP address before the first one, and remove HTTP and metrics.
	said := reload(`{"TFTP": {"Listen": ["localhost:0", "127.0.0.1:0"]}, "HTTP": {"Listen": []}, "Metrics": ""}`)
	awaitRefused(t, strings.TrimPrefix(web.at, "http://"))
	awaitRefused(t, metrics)
	second := "tftp://" + wordAfter(said, " on tftp://") + "/"
	if second == first || !strings.Contains(said, " on "+strings.TrimSuffix(first, "/")) {
		t.Errorf("the new addresses are in %s", said)
	}
	if again := wordAfter(said, "status page at "); again != page+"/" {
		t.Errorf("the status page was at %s, and is at %s", page, again)
	}
	for _, c.url = range []string{first, second} {
		c.wantGet("kernel", content)
	}
	askStatus(c, "/api/v1/failures", func(s status.Failures) bool { // a failure of the first server
		return len(s.Failures) == 1 && s.Failures[0].File == "kernel" && s.Failures[0].Direction == "write"
	})

	// Now configure only the second address, by its number, and HTTP again.
	_, port, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(second, "tftp://"), "/"), ":")
	said = reload(fmt.Sprintf(`{"TFTP": {"Listen": ["127.0.0.1:%s"]}}`, port))
	c.url = second
	c.wantGet("kernel", content)
	if strings.Contains(said, " on "+strings.TrimSuffix(first, "/")) {
		t.Errorf("the first address is still open: %s", said)
	}
	if got, err := fetchOnce(http.DefaultClient, "http://"+wordAfter(said, " on http://")+"/kernel"); got != content {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	http.DefaultClient.CloseIdleConnections()

	// This address includes the earlier one, so both cannot be open.
	metric("haul_config_last_reload_successful 1")
	set(fmt.Sprintf(`{"TFTP": {"Listen": [":%s"]}}`, port))
	if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	c.await("level=ERROR", "restart haul for this change", "\n")
	metric("haul_config_last_reload_successful 0")
	c.wantGet("kernel", content)
	transfer.end() // a transfer of the first server
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.wantExit(0)
}

// Transfers on a single port end normally if the next server uses more ports. A successor that
// switches to a single port need not wait for transfers on other ports.
func TestReloadSinglePort(t *testing.T) {
	content := strings.Repeat("x", 3*512+1)
	for _, loops := range []int{1, 3} {
		for _, single := range []bool{true, false} {
			t.Run(fmt.Sprintf("loops=%d/single=%v", loops, single), func(t *testing.T) {
				o, set := newReloads(t)
				settings := func(loops int, single bool) {
					set(fmt.Sprintf(`{"TFTP": {"SinglePort": %v, "Loops": %d}}`, single, loops))
				}
				settings(loops, single)
				c := startChild(t, o, bigDir(t), "--grace", "1h")
				transfer := c.halfway("kernel")
				settings(4-loops, !single)
				c.signal(syscall.SIGHUP)
				pid := c.succeeded(1)
				if !single {
					c.wantGet("kernel", content)
				}
				transfer.end()
				c.awaitEnd(c.cmd.Process.Pid)
				c.wantGet("kernel", content)
				if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				c.wantExit(0)
			})
		}
	}
}
