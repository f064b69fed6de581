package main

import (
	"runtime/debug"
	"testing"

	"github.com/haul-project/haul/internal/remote"
)

// A copy over SFTP collects garbage less often, within a bound; what the user has set stays.
func TestRelaxCollector(t *testing.T) {
	const percent, limit = 77, 1 << 40
	for _, test := range []struct {
		name         string
		over         remote.Protocol
		gogc, memory string
		percent      int
		limit        int64
	}{
		{"SFTP", remote.SFTP, "", "", copyGarbage, copyHeap},
		{"HTTP", remote.HTTP, "", "", percent, limit},
		{"GOGC", remote.SFTP, "77", "", percent, limit},
		{"GOMEMLIMIT", remote.SFTP, "", "1TiB", copyGarbage, limit},
	} {
		t.Run(test.name, func(t *testing.T) {
			oldPercent, oldLimit := debug.SetGCPercent(percent), debug.SetMemoryLimit(limit)
			defer debug.SetMemoryLimit(oldLimit)
			defer debug.SetGCPercent(oldPercent)
			t.Setenv("GOGC", test.gogc)
			t.Setenv("GOMEMLIMIT", test.memory)
			relaxCollector(test.over)
			if got := debug.SetMemoryLimit(-1); got != test.limit {
				t.Errorf("the heap is bounded by %d bytes, want %d", got, test.limit)
			}
			if got := debug.SetGCPercent(percent); got != test.percent {
				t.Errorf("it is collected at %d %%, want %d", got, test.percent)
			}
		})
	}
}
