package sftpclient

import (
	"testing"

	"github.com/haul-project/haul/internal/leak"
)

// Package ssh may leak the goroutine of a channel that is opened while the connection ends, so it
// is ignored. If the connection itself leaks, the test finds other goroutines.
func TestMain(m *testing.M) {
	leak.Main(m, "haul/sftp", "haul/internal/sshconn.", "crypto/ssh.", "!ssh.(*mux).openChannel")
}
