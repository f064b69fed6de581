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

// tryScrape does the same as scrape, but returns an error if the server has closed its port
// already.
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
