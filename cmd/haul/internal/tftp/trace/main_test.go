package trace

import (
	"testing"

	"github.com/haul-project/haul/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m, "trace.(*Tracer).run") }
