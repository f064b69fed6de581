package sftpclient

import (
	"testing"

	"github.com/haul-project/haul/internal/leak"
)

// Package ssh may forget a channel that is opened while the connection ends. If the connection
// still exists, other goroutines show it.
func TestMain(m *testing.M) {
	leak.Main(m, "haul/sftp", "haul/internal/sshconn.", "crypto/ssh.", "!ssh.(*mux).openChannel")
}
