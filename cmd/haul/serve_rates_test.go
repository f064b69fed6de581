//go:build unix

package main

import (
	"strings"
	"testing"
	"time"
)

// Each rate limit holds from end to end: a file with one second's worth of bytes takes at least
// half a second. TestServeSFTPRate covers SFTP.
func TestServeRates(t *testing.T) {
	t.Parallel() // it waits most of the time
	content := strings.Repeat("x", 1<<20)
	dir := servedDir(t, map[string]string{"file": content})
	for _, flag := range []string{"--tftp-bandwidth", "--tftp-bandwidth-per-client", "--http-rate", "--http-rate-per-source"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			c := startChild(t, childOptions{}, dir, "--http", "127.0.0.1:0", flag, "1MiB")
			web := &httpChild{child: c}
			web.awaitHTTP("http")
			began := time.Now()
			if strings.HasPrefix(flag, "--tftp") {
				c.wantGet("file", content)
			} else {
				web.want(200, content, "GET /file", "")
			}
			if took := time.Since(began); took < 500*time.Millisecond {
				t.Errorf("a second's bytes took %v", took)
			}
			c.stop()
		})
	}
}
