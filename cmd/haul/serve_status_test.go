//go:build unix

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/status"
)

// statusURL returns the URL of the status page.
func (c *child) statusURL() string {
	c.t.Helper()
	const before = "haul: status page at "
	return strings.TrimSuffix(wordAfter(c.await(before, "/\n"), before), "/")
}

// askStatus asks for a document of the status page until it is as it should be.
func askStatus[T any](c *child, path string, fits func(T) bool) {
	c.t.Helper()
	var body []byte
	for late := time.Now().Add(patience); time.Now().Before(late); time.Sleep(5 * time.Millisecond) {
		var got T
		answer, err := http.Get(c.statusURL() + path)
		if err == nil {
			body, err = io.ReadAll(answer.Body)
			answer.Body.Close()
		}
		if err == nil && json.Unmarshal(body, &got) == nil && fits(got) {
			return
		}
	}
	c.t.Fatalf("%s is %s", path, body)
}

// The status page shows transfers under way, those that ended and those that failed; "haul
// top" does as well.
func TestServeStatus(t *testing.T) {
	t.Parallel() // it waits most of the time
	defer http.DefaultClient.CloseIdleConnections()
	dir := bigDir(t)
	c := startChild(t, childOptions{}, dir, "--http", "127.0.0.1:0", "--upload", "create", "--status", "127.0.0.1:0", "--grace", "1m")
	transfer := c.halfway("kernel")
	c.wantPut("kernel", "other", exitRefused)
	askStatus(c, "/api/v1/transfers", func(s status.Transfers) bool {
		return s.Total == 1 && s.Transfers[0].File == "kernel" && s.Transfers[0].Protocol == "tftp" && s.Transfers[0].Bytes > 0 && s.Transfers[0].Window == 1 &&
			*s.Transfers[0].Size == 3*512+1
	})
	askStatus(c, "/api/v1/failures", func(s status.Failures) bool {
		return len(s.Failures) == 1 && s.Failures[0].Direction == "write" && s.Failures[0].Result == "refused" && strings.Contains(s.Failures[0].Advice, "overwrite")
	})
	askStatus(c, "/api/v1/info", func(s status.Info) bool {
		return len(s.Protocols) == 2 && s.Protocols[0].Live == 1 && s.Protocols[0].Failed == 1 && s.Protocols[1].Protocol == "http"
	})
	code, out, errs := haul(t, "top", c.statusURL())
	if code != 0 || errs != "" || !strings.Contains(out, "kernel") || !strings.Contains(out, "write kernel from 127.0.0.1") || strings.Contains(out, "\x1b") {
		t.Errorf("haul top: exit code %d, %s%s", code, out, errs)
	}
	events, err := http.Get(c.statusURL() + "/events")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := fetchOnce(http.DefaultClient, c.statusURL()+"/metrics"); err != nil || !strings.Contains(got, "\nhaul_status_watchers 1\n") {
		t.Errorf("the metrics do not count who watches: %v", err)
	}
	events.Body.Close()
	transfer.end()
	c.stop()
	if code, _, errs := haul(t, "top", c.statusURL()); code != exitNoAnswer || !strings.Contains(errs, "--status") {
		t.Errorf("haul top without a server: exit code %d, %s", code, errs)
	}
}

// At an address that others can reach, haul does not start without users and TLS.
func TestServeStatusRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--status", ":0"}, "others can reach that address"},
		{[]string{"--status", "0.0.0.0:9070"}, "--status-users FILE and --status-cert FILE"},
		{[]string{"--status", "[::]:9070"}, "127.0.0.1:PORT"},
		{[]string{"--status", "status.example:9070"}, "others can reach that address"},
		{[]string{"--status", "9070"}, "HOST:PORT"},
		{[]string{"--status", ":0", "--status-users", file}, "could read the passwords"},
		{[]string{"--status", ":0", "--status-cert", file}, "--status-cert goes with --status-users"},
		{[]string{"--status", "127.0.0.1:0", "--status-users", file, "--status-cert", file, "--status-host", "x"}, "every name will do"},
		{[]string{"--status", "127.0.0.1:0", "--status-host", "status.example:9070"}, "without port"},
		{[]string{"--status", "127.0.0.1:0", "--status-host", "http://status.example"}, "without port"},
		{[]string{"--status", "127.0.0.1:9070", "--metrics", "127.0.0.1:9070"}, "--metrics and --status have the same address"},
		{[]string{"--status", "127.0.0.1:9070", "--http", "127.0.0.1:9070"}, "--http and --status have the same address"},
		{[]string{"--status-pprof"}, "add --status 127.0.0.1:9070"},
	} {
		said := runChild(t, childOptions{}, append(append([]string{"serve", t.TempDir()}, anyPort...), c.args...)...).wantExit(exitUsage)
		if !strings.Contains(said, c.want) {
			t.Errorf("%v: said %s, want %q", c.args, said, c.want)
		}
	}
}

// A page that is asked for under the name of a stranger's site is refused.
func TestServeStatusHost(t *testing.T) {
	c := startChild(t, childOptions{}, t.TempDir(), "--status", "localhost:0", "--status-host", "status.example")
	for host, want := range map[string]int{"evil.example": 403, "status.example": 200, "localhost:1": 200} {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.statusURL()+"/api/v1/info", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Host = host
		answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(q)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: status %d, want %d", host, answer.StatusCode, want)
		}
	}
	c.stop()
}
