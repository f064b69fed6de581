//go:build unix

package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// scrape requests a path from the server's metrics.
func (c *child) scrape(path string) (status int, body string) {
	c.t.Helper()
	status, body, err := c.tryScrape(path)
	if err != nil {
		c.t.Fatal(err)
	}
	return status, body
}

// tryScrape is scrape for a server that may be about to close its port.
func (c *child) tryScrape(path string) (status int, body string, err error) {
	c.t.Helper()
	const before = "haul: metrics at "
	_, url, _ := strings.Cut(c.await(before, "/metrics\n"), before)
	url, _, _ = strings.Cut(url, "/metrics\n")
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url + path)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(b), err
}

// wantMetric waits until the metrics contain a line.
func (c *child) wantMetric(line string) {
	c.t.Helper()
	c.awaitPage("/metrics", line, func(status int, body string) bool {
		return status == http.StatusOK && strings.Contains("\n"+body, "\n"+line+"\n")
	})
}

// awaitPage requests a page repeatedly until it fits.
func (c *child) awaitPage(path, what string, fits func(status int, body string) bool) {
	c.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); ; {
		status, body, err := c.tryScrape(path)
		if err == nil && fits(status, body) {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			c.t.Fatalf("%s: status %d, %v, no %s in\n%s", path, status, err, what, body)
		}
	}
}

func TestServeMetrics(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/kernel", "image")
	c := startChild(t, childOptions{}, dir, "--metrics", "127.0.0.1:0")
	if status, body := c.scrape("/healthz"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("/healthz: %d, %q", status, body)
	}
	c.wantMetric(`haul_transfers_total{direction="read",protocol="tftp",result="done"} 0`)
	c.wantGet("kernel", "image")
	c.wantNoGet("none", exitNotFound)
	c.wantPut("log", "text", exitRefused)
	if code, out, errs := haul(t, "probe", c.url+"kernel"); code != 0 || out != "5\n" {
		t.Errorf("probe: exit code %d, %q, %s", code, out, errs)
	}
	raw := c.dial()
	raw.send("\x00\x01no mode")
	if got := raw.receive(); !strings.HasPrefix(got, "\x00\x05\x00\x04") {
		t.Errorf("half a request is answered by %q", got)
	}
	for _, line := range []string{
		`haul_transfers_total{direction="read",protocol="tftp",result="done"} 1`,
		`haul_transfers_total{direction="read",protocol="tftp",result="probe"} 1`,
		`haul_transfers_total{direction="read",protocol="tftp",result="refused"} 1`,
		`haul_transfers_total{direction="write",protocol="tftp",result="refused"} 1`,
		`haul_refused_total{protocol="tftp",reason="malformed"} 1`,
		`haul_bytes_total{direction="read",protocol="tftp"} 5`,
		`haul_transfers_live{direction="read",protocol="tftp"} 0`,
	} {
		c.wantMetric(line)
	}
	c.stop()
}

// Requests turned away by a limit do not count as transfers.
func TestServeMetricsTurnedAway(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/kernel", "image")
	for reason, flags := range map[string][]string{
		"denied": {"--deny", "127.0.0.0/8"},
		"rate":   {"--rate", "1"},
	} {
		c := startChild(t, childOptions{}, append(flags, dir, "--metrics", "127.0.0.1:0")...)
		raw := c.dial()
		for range 100 {
			raw.send(readRequest("none"))
		}
		line := "\n" + `haul_refused_total{protocol="tftp",reason="` + reason + `"} `
		c.awaitPage("/metrics", line+"above 0", func(_ int, body string) bool {
			return strings.Contains(body, line) && !strings.Contains(body, line+"0\n")
		})
		c.stop()
	}
}
