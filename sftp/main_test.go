package sftp

import (
	"testing"
	"time"

	"github.com/haul-project/haul/internal/leak"
)

// patience is how long a test waits for something that should happen at once. Machines may be
// slow, so only a failing test ever waits that long.
const patience = 20 * time.Second

// Package ssh may forget a channel that is opened while the connection ends. If the connection
// still exists, other goroutines show it.
func TestMain(m *testing.M) {
	leak.Main(m, "haul/sftp.", "haul/internal/sshconn.", "crypto/ssh.", "!ssh.(*mux).openChannel")
}
