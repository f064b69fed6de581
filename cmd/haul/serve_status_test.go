//go:build unix

package main

import (
	"encoding/json"
	"io"
	"net/http"
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

// askStatus requests a document of the status page until it fits.
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

// The status page and "haul top" show transfers in progress, ended transfers and failed ones.
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
