//go:build linux

package interop

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// scalePatience is how long a failing test waits.
const scalePatience = 2 * time.Minute

// A metered server is one whose state is visible to a test.
type metered struct {
	*daemon
	addr    netip.AddrPort
	metrics string // URL
	client  http.Client
}

var metricsAt = regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+/metrics`)

// serveMetered starts haul as a server with metrics. It only logs failures: a test of thousands
// of transfers does not need a line for each.
func serveMetered(t *testing.T, dir string, args ...string) *metered {
	t.Helper()
	addr, d := serve(t, dir, append([]string{"--quiet", "--metrics", "127.0.0.1:0"}, args...)...)
	m := &metered{daemon: d, addr: addr, metrics: metricsAt.FindString(d.said(100))}
	if m.metrics == "" {
		t.Fatalf("haul serve did not say where its metrics are:\n%s", d.said(100))
	}
	m.client = http.Client{Timeout: scalePatience, Transport: &http.Transport{DisableKeepAlives: true}}
	return m
}

// A sample is one reading of the metrics. Series with the same name are added up.
type sample map[string]float64

// scrape reads the metrics once.
func (m *metered) scrape(ctx context.Context) (sample, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.metrics, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := m.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics: %s", resp.Status)
	}
	s := sample{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: %q: %w", line, err)
		}
		name, _, _ := strings.Cut(line[:at], "{")
		s[name] += value
	}
	return s, lines.Err()
}

// liveHeap returns how many bytes were in use after the server's last garbage collection: the
// next one is due when these have doubled. The bytes in use now say less, because garbage is
// collected gradually.
func (s sample) liveHeap() int64 { return int64(s["go_memstats_next_gc_bytes"]) / 2 }

// await scrapes until a reading is as wanted, and returns it.
func (m *metered) await(t *testing.T, what string, wanted func(sample) bool) sample {
	t.Helper()
	for end := time.Now().Add(scalePatience); ; time.Sleep(20 * time.Millisecond) {
		s, err := m.scrape(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if wanted(s) {
			return s
		}
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s; %v transfers live, %v resting, %v goroutines, %d descriptors",
				scalePatience, what, s["haul_transfers_live"], s["haul_tftp_resting"], s["go_goroutines"], m.descriptors(t))
		}
	}
}

// collected returns a reading after a garbage collection.
func (m *metered) collected(t *testing.T) sample {
	t.Helper()
	const name = "go_gc_duration_seconds_count"
	begin := m.await(t, "a reading", func(sample) bool { return true })[name]
	end := time.Now().Add(scalePatience)
	for time.Now().Before(end) { // each reading makes garbage
		s, err := m.scrape(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s[name] > begin {
			return s
		}
	}
	t.Fatalf("the server has not collected its garbage within %v", scalePatience)
	panic("unreachable")
}

// memory returns a line of /proc/PID/status, in bytes: VmRSS is the server's current memory, and
// VmHWM its peak.
func (m *metered) memory(t *testing.T, line string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(status)) {
		words := strings.Fields(l)
		if len(words) == 3 && words[0] == line+":" {
			n, err := strconv.ParseInt(words[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatalf("no %s in /proc/PID/status", line)
	panic("unreachable")
}

// descriptors counts the server's open descriptors.
func (m *metered) descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", m.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// healthy checks conditions that hold for any server at any time.
func (m *metered) healthy(t *testing.T) {
	t.Helper()
	s := m.await(t, "a reading", func(sample) bool { return true })
	for _, never := range []string{"haul_tftp_crashes_total", "haul_transfers_unlisted_total"} {
		if n, ok := s[never]; !ok || n != 0 {
			t.Errorf("%s is %v (there: %t), want 0", never, n, ok)
		}
	}
}

func inMiB(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// maxFailures is how many errors of one kind are shown.
const maxFailures = 3

// failures collects the errors of many goroutines.
type failures struct {
	mu  sync.Mutex
	all []error
}

func (f *failures) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, err)
}

func (f *failures) any() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.all) > 0
}

// report fails the test if there was any error, and shows the first few.
func (f *failures) report(t *testing.T) bool {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, err := range f.all[:min(len(f.all), maxFailures)] {
		t.Error(err)
	}
	if n := len(f.all) - maxFailures; n > 0 {
		t.Errorf("and %d more errors", n)
	}
	return len(f.all) > 0
}
