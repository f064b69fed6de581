package main

import (
	"runtime/debug"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
)

// A copy of files over SFTP collects garbage less often, but a copy of a tree does not. A GOGC set
// by the user stays, and there is no memory limit at which the collector would run all the time.
func TestRelaxCollector(t *testing.T) {
	const percent, limit = 77, 1 << 40
	for _, test := range []struct {
		name      string
		over      remote.Protocol
		recursive bool
		gogc      string
		percent   int
	}{
		{"SFTP", remote.SFTP, false, "", copyGarbage},
		{"a tree over SFTP", remote.SFTP, true, "", percent},
		{"HTTP", remote.HTTP, false, "", percent},
		{"GOGC", remote.SFTP, false, "77", percent},
	} {
		t.Run(test.name, func(t *testing.T) {
			oldPercent, oldLimit := debug.SetGCPercent(percent), debug.SetMemoryLimit(limit)
			defer debug.SetMemoryLimit(oldLimit)
			defer debug.SetGCPercent(oldPercent)
			t.Setenv("GOGC", test.gogc)
			relaxCollector(test.over, test.recursive)
			if got := debug.SetMemoryLimit(-1); got != limit {
				t.Errorf("memory is limited to %d bytes", got)
			}
			if got := debug.SetGCPercent(percent); got != test.percent {
				t.Errorf("it is collected at %d %%, want %d", got, test.percent)
			}
		})
	}
}
