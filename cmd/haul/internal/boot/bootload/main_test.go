package bootload

import (
	"testing"
	"time"

	"github.com/haul-project/haul/internal/leak"
)

// patience is how long a test waits for something that should happen soon. Only a failing test
// waits that long.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	leak.Main(m, "haul/tftp.", "internal/bootload.", "haul/tftp/tftpclient.", "haul/udp.")
}
