package load

import (
	"testing"
	"time"

	"github.com/haul-project/haul/internal/leak"
)

// patience is how long a test waits for an event that should happen at once. It is long because
// machines may be slow; only a failing test waits that long.
const patience = 60 * time.Second

func TestMain(m *testing.M) { leak.Main(m, "haul/tftp.", "tftp/load.", "haul/udp.") }
