//go:build unix

package main

import (
	"strings"
	"testing"
	"time"
)

// The rate holds for all together, as that of SFTP: see TestServeSFTPRate.
func TestServeHTTPRate(t *testing.T) {
	t.Parallel() // it waits most of the time
	content := strings.Repeat("x", 1<<20)
	s := startHTTP(t, servedDir(t, map[string]string{"file": content}), "--http-rate", "1MiB")
	began := time.Now()
	s.want(200, content, "GET /file", "")
	if took := time.Since(began); took < 500*time.Millisecond {
		t.Errorf("a second's bytes took %v", took)
	}
	s.stop()
}
