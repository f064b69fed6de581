package tftpd

import (
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/tftp"
)

// Each reason to turn a request away, such as that it is malformed, has its own counter.
func TestTurnedAway(t *testing.T) {
	counts := meter.New(meter.Config{})
	var srv tftp.Config
	countTransfers(&srv, counts)
	reasons := len(tftp.Counters{}.TurnedAway)
	for i := range reasons {
		srv.Hooks.TurnedAway(tftp.Reason(i), int64(i+1))
	}
	got := counts.Refused(meter.TFTP)
	if len(got) != reasons {
		t.Errorf("%d reasons are counted as %v", reasons, got)
	}
	for i := range reasons {
		if why := tftp.Reason(i).String(); got[meter.Reason(why)] != int64(i+1) {
			t.Errorf("%q is counted %d times, want %d", why, got[meter.Reason(why)], i+1)
		}
	}
	if got["malformed"] == 0 {
		t.Errorf("no reason is called malformed: %v", got)
	}
}
