package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/tftp"
)

// benchKeys are the keys in the JSON of "haul bench tftp", on which programs rely. Keys may only be
// added.
var benchKeys = strings.Fields(`seconds transfers failed errors bytes
	mb_per_second data_packets packets_per_second resent duplicates timeouts
	late cut verified latency_ms first_ms client_cpu_seconds client_cpu_share
	busy saturated agreed_blksize agreed_windowsize concurrency size blksize
	windowsize write loss seed loops`)

// benchJSON runs a benchmark and returns what it printed.
func benchJSON(t *testing.T, args ...string) (code int, got map[string]any, stderr string) {
	t.Helper()
	code, stdout, stderr := haul(t, append([]string{"bench", "tftp", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("%v in %q (%s)", err, stdout, stderr)
	}
	return code, got, stderr
}

func TestBenchDownloads(t *testing.T) {
	dir, url := startServer(t, tftp.NoUploads, nil)
	if code, _, stderr := haul(t, "bench", "files", dir, "--size", "10kB", "--count", "2"); code != 0 {
		t.Fatal(stderr)
	}
	code, got, stderr := benchJSON(t, url+"f{}", "-c", "3", "-n", "6", "--names", "2", "--pattern", "--size", "10kB", "--warmup", "1")
	if code != 0 || stderr != "" {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, slices.Sorted(slices.Values(benchKeys))) {
		t.Errorf("keys %q", keys)
	}
	for key, want := range map[string]any{
		"transfers": 6.0, "failed": 0.0, "bytes": 60_000.0, "data_packets": 6.0 * 20, "concurrency": 3.0,
		"size": 10_000.0, "agreed_blksize": 512.0, "agreed_windowsize": 1.0, "write": false, "loops": 1.0,
	} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	for _, key := range []string{"latency_ms", "first_ms"} {
		l, _ := got[key].(map[string]any)
		if keys := slices.Sorted(maps.Keys(l)); !slices.Equal(keys, []string{"max", "p50", "p90", "p99"}) {
			t.Errorf("%s has %v", key, l)
		}
	}
}
