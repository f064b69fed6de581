package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/tftp"
)

// benchKeys are what programs find in the JSON of "haul bench tftp": names
// only ever join.
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

func TestBenchUploads(t *testing.T) {
	dir, url := startServer(t, tftp.CreateUploads, nil)
	code, got, stderr := benchJSON(t, url+"up{}", "--put", "--size", "4k", "--blksize", "1000", "--windowsize", "4", "-n", "2", "--verify")
	if code != 0 || got["verified"] != 2.0 || got["write"] != true || got["agreed_windowsize"] != 4.0 {
		t.Errorf("exit code %d, %q, %v", code, stderr, got)
	}
	if info, err := os.Stat(filepath.Join(dir, "up1")); err != nil || info.Size() != 4096 {
		t.Errorf("up1: %v, %v", info, err)
	}
}

// The report and the exit code show transfers that fail.
func TestBenchFailures(t *testing.T) {
	_, url := startServer(t, tftp.NoUploads, map[string]string{"file": "content"})
	code, stdout, stderr := haul(t, "bench", "tftp", url+"none", "-n", "3")
	if code != exitFailed || !strings.Contains(stdout, "3 x peer says file not found") || !strings.Contains(stderr, "some transfers failed") {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
	code, stdout, _ = haul(t, "bench", "tftp", url+"file", "-n", "3", "--pattern")
	if code != exitFailed || !strings.Contains(stdout, "3 x content differs") {
		t.Errorf("exit code %d, %q", code, stdout)
	}
}

func TestBenchText(t *testing.T) {
	_, url := startServer(t, tftp.NoUploads, map[string]string{"file": strings.Repeat("x", 5000)})
	code, stdout, stderr := haul(t, "bench", "tftp", url+"file", "-n", "5", "-c", "2", "--blksize", "1000")
	if code != 0 {
		t.Fatal(stderr)
	}
	for _, want := range []string{"5 in ", "0 failed", "25.0 kB", "30 of DATA", "blksize 1000, windowsize 1", "p99 ", "CPU time"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

func TestBenchUsage(t *testing.T) {
	const url = "tftp://127.0.0.1/f"
	for _, tt := range []struct {
		args string
		want string
	}{
		{"tftp", " is missing"},
		{"tftp http://127.0.0.1/f", "not of the form"},
		{"tftp " + url + " -c 10001", "1 to 10000"},
		{"tftp " + url + " --put", "--size"},
		{"tftp " + url + " --size 5x", "not a size"},
		{"tftp " + url + " --loss 2", "a part, not a percentage"},
		{"tftp " + url + " --no-options --windowsize 4", "options"},
		{"tftp " + url + ";mode=netascii", "octet"},
		{"files", " is missing"},
		{"files . --count 0", "1 to"},
		{"files . --count 2 --name x", "{}"},
		{"files . --name ../x", "inside the directory"},
		{"nothing", "no command"},
	} {
		code, _, stderr := haul(t, append([]string{"bench"}, strings.Fields(tt.args)...)...)
		if code != exitUsage || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: exit code %d, %q; want %q", tt.args, code, stderr, tt.want)
		}
	}
}

func TestBenchFilesCannotWrite(t *testing.T) {
	code, _, stderr := haul(t, "bench", "files", filepath.Join(t.TempDir(), "none"))
	if code != exitLocal || !strings.Contains(stderr, "f0") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}
