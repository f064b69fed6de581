package openssh

import (
	"testing"

	"github.com/haul-project/haul/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m, "internal/openssh.", "crypto/ssh.", "crypto/ssh/agent.") }
