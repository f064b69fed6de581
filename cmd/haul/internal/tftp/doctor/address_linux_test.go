package doctor

import (
	"testing"

	"github.com/haul-project/haul/tftp"
)

// All of 127.0.0.0/8 is local on Linux, so a server can answer from elsewhere.
func TestAnswerFromElsewhere(t *testing.T) {
	f := newFake(t, serve(t, "f", file(defaultSize), tftp.NoUploads), lie{from: "127.0.0.2"})
	d := examine(t, Config{Target: target(f.addr(), "f")})
	if len(d.Broken) != 1 || d.Broken[0].Name != ruleAddress {
		t.Errorf("named %+v, want %s", d.Broken, ruleAddress)
	}
}
