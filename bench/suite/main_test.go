package suite

import (
	"os"
	"testing"

	"github.com/haul-project/haul/bench/link"
)

func TestMain(m *testing.M) {
	link.Main()
	os.Exit(m.Run())
}
