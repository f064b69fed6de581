package load

import (
	"testing"
	"time"

	"github.com/haul-project/haul/internal/leak"
)

// patience is how long a test waits for what should happen at once. Machines
// may be slow, so only a failing test ever waits that long.
const patience = 60 * time.Second

func TestMain(m *testing.M) { leak.Main(m, "haul/tftp.", "tftp/load.", "haul/udp.") }
