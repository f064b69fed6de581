package serve

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/cmd/haul/internal/server/source"
)

// The garbage collector gets the limit that docs/tftp.md promises, unless the user has set one.
func TestBoundHeap(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	cfg := settings.Config{TFTP: settings.TFTP{Listen: []string{":69"}, MaxTransfers: 1000, Memory: 64 << 20}}
	t.Setenv("GOMEMLIMIT", "1TiB")
	boundHeap(&cfg)
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("a limit of %d bytes in place of the user's", got)
	}
	t.Setenv("GOMEMLIMIT", "")
	boundHeap(&cfg)
	want := int64(24<<20+runtime.GOMAXPROCS(0)*20<<20+1000*16<<10) + 64<<20
	if got := debug.SetMemoryLimit(-1); got != want {
		t.Errorf("a limit of %d bytes, want %d", got, want)
	}
}

// A cache adds its memory, and the heap may at most double, because the cache's blocks in memory
// are live.
func TestBoundCache(t *testing.T) {
	before, usual := debug.SetMemoryLimit(-1), debug.SetGCPercent(100)
	defer debug.SetMemoryLimit(before)
	defer debug.SetGCPercent(usual)
	t.Setenv("GOMEMLIMIT", "")
	t.Setenv("GOGC", "")
	cfg := settings.Config{HTTP: settings.HTTP{Listen: []string{":80"}}, Cache: source.Caching{Dir: "cache"}}
	boundHeap(&cfg)
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("%d percent of garbage, want 100", got)
	}
	if got, want := debug.SetMemoryLimit(-1), int64(24<<20+512<<20+64<<20); got != want {
		t.Errorf("a limit of %d bytes, want %d", got, want)
	}
}

// The memory of SFTP is added to that of TFTP, and there are enough threads if all sessions wait
// for a disk.
func TestBoundSFTP(t *testing.T) {
	before, threads := debug.SetMemoryLimit(-1), debug.SetMaxThreads(usualThreads)
	defer debug.SetMemoryLimit(before)
	defer debug.SetMaxThreads(threads)
	usual := debug.SetGCPercent(100)
	defer debug.SetGCPercent(usual)
	t.Setenv("GOMEMLIMIT", "")
	cfg := settings.Config{SFTP: settings.SFTP{Listen: []string{":22"}, MaxConns: 2000}}
	t.Setenv("GOGC", "50")
	boundHeap(&cfg)
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("%d percent of garbage in place of the user's", got)
	}
	t.Setenv("GOGC", "")
	boundHeap(&cfg)
	if got := debug.SetGCPercent(100); got != heapGrowth {
		t.Errorf("%d percent of garbage, want %d", got, heapGrowth)
	}
	want := int64(24<<20 + 2000*96<<10 + 64*3<<20 + runtime.GOMAXPROCS(0)*20<<20)
	if got := debug.SetMemoryLimit(-1); got != want {
		t.Errorf("a limit of %d bytes, want %d", got, want)
	}
	boundThreads(&cfg)
	if got := debug.SetMaxThreads(usualThreads); got != 21_000 {
		t.Errorf("a limit of %d threads, want 21000", got)
	}
	cfg.SFTP.MaxConns = 10
	boundThreads(&cfg)
	if got := debug.SetMaxThreads(usualThreads); got != usualThreads {
		t.Errorf("a limit of %d threads, want %d", got, usualThreads)
	}
}
