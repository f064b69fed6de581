package treecopy_test

import (
	"testing"

	"github.com/haul-project/haul/internal/leak"
)

// Package ssh may leak a channel that is opened while the connection ends. Other goroutines would
// show a connection that still exists.
func TestMain(m *testing.M) {
	leak.Main(m, "haul/store/treecopy.", "haul/sftp.", "crypto/ssh.", "!ssh.(*mux).openChannel")
}
