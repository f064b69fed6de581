package doctor

import (
	"testing"

	"github.com/haul-project/haul/tftp"
)

// On Linux all addresses of 127.0.0.0/8 are local, so the test can answer from an address other
// than the server's.
func TestAnswerFromElsewhere(t *testing.T) {
	f := newFake(t, serve(t, "f", file(defaultSize), tftp.NoUploads), lie{from: "127.0.0.2"})
	d := examine(t, Config{Target: target(f.addr(), "f")})
	if len(d.Broken) != 1 || d.Broken[0].Name != ruleAddress {
		t.Errorf("named %+v, want %s", d.Broken, ruleAddress)
	}
}
