package main

import (
	"strings"
	"testing"
)

func TestGuardRefuses(t *testing.T) {
	haul := standInHaul(t)
	for _, tt := range []struct{ args, want string }{
		{"guard", "before"},
		{"guard --before " + haul + " --only (", "--only"},
		{"guard --before " + haul + " --only nothing-of-this", "none of the loads"},
		{"guard --before none --bin " + t.TempDir(), "there is no haul to measure"},
	} {
		if _, err := bench(t, strings.Fields(tt.args)...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want %q", tt.args, err, tt.want)
		}
	}
}

// A guard that could measure nothing does not pass.
func TestGuardThatMeasuresNothing(t *testing.T) {
	haul := standInHaul(t)
	out, err := bench(t, "guard", "--bin", strings.TrimSuffix(haul, "/haul"), "--before", haul, "--only", "^many-100-10kB$")
	if err == nil || !strings.Contains(err.Error(), "2 figures had fewer than 5 rounds") || !strings.Contains(out, "not tried: many-100-10kB haul before: ") {
		t.Errorf("%v\n%s", err, out)
	}
}
