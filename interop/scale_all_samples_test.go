//go:build linux

package interop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The limits by which the median of the last quarter may exceed that of the second; the server
// warms up in the first. Descriptors and goroutines follow the load, which varies, so those are
// compared at rest, before and after all work.
const (
	flatFrom    = 5 * time.Minute // a shorter soak counts as warm-up
	flatMemory  = 8 << 20         // bytes, in addition to a tenth of the earlier value
	flatThreads = 6

	// In addition, a server with a successor stays until it has given up on peers that vanished.
	soakProcesses = 4 // the server, its helper that starts successors, and two for hooks
)

// A process is one of the server's processes.
type process struct {
	pid, parent int
	state       string // as in /proc/PID/stat: Z is a zombie
	began       int64  // ticks of the system's clock
}

// processes returns the processes in the server's group, except the shell that started it.
func (a *soakAll) processes() (all []process) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, file := range files {
		text, err := os.ReadFile(file)
		_, after, found := strings.Cut(string(text), ") ")
		words := strings.Fields(after)
		if err != nil || !found || len(words) < 20 || words[2] != strconv.Itoa(a.group) {
			continue
		}
		comm, _, _ := strings.Cut(string(text), ") ")
		_, comm, _ = strings.Cut(comm, "(")
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, _ := strconv.Atoi(words[1])
		// A child whose parent has ended is reaped by the system.
		if comm == "sh" || comm == "cat" || words[0] == "Z" && (parent == 1 || parent == a.group) {
			continue
		}
		began, _ := strconv.ParseInt(words[19], 10, 64)
		all = append(all, process{pid, parent, words[0], began})
	}
	return all
}

// serving returns the process that serves: the parent of the latest helper.
func (a *soakAll) serving() (pid int) {
	var latest int64
	for _, p := range a.processes() {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid)) // it may have ended
		if p.began >= latest && strings.Contains(string(command), "starts successors") {
			pid, latest = p.parent, p.began
		}
	}
	return pid
}

// A level is the server's use of resources at a time.
type level struct {
	at                               time.Duration // since the first level
	resident                         int64         // bytes of the process
	descriptors, goroutines, threads int
	processes, zombies               int
	transfers                        int // transfers finished since the process began
}

// scrape reads the metrics. If the process is just ending, it tries again.
func (a *soakAll) scrape(ctx context.Context) (s sample, err error) {
	for range 3 {
		if s, err = a.m.scrape(ctx); err == nil || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			break
		}
		a.did("scrape that a reload cut")
	}
	return s, err
}

// sample records the server's resources.
func (a *soakAll) sample(ctx context.Context) error {
	l, err := a.level(ctx)
	if err == nil && l != (level{}) {
		a.samples = append(a.samples, l)
	}
	return err
}

// level returns the server's resources, or nothing if it has just been replaced.
func (a *soakAll) level(ctx context.Context) (level, error) {
	s, err := a.scrape(ctx)
	if err != nil {
		return level{}, err
	}
	l := level{at: time.Since(a.began), goroutines: int(s["go_goroutines"]), transfers: int(s["haul_transfers_total"])}
	for _, p := range a.processes() {
		l.processes++
		if p.state == "Z" {
			l.zombies++
		}
	}
	pid := a.pid.Load()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	entries, err2 := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err := errors.Join(err, err2); err != nil {
		if a.pid.Load() != pid {
			return level{}, nil
		}
		return level{}, err
	}
	l.descriptors = len(entries)
	for line := range strings.Lines(string(status)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		n, _ := strconv.ParseInt(words[1], 10, 64)
		switch words[0] {
		case "VmRSS:":
			l.resident = n << 10
		case "Threads:":
			l.threads = int(n)
		}
	}
	return l, nil
}

// flat compares the second quarter of the samples with the last one.
func (a *soakAll) flat(t *testing.T, name string) {
	t.Helper()
	var table strings.Builder
	table.WriteString("second\tresident KiB\tdescriptors\tgoroutines\tthreads\tprocesses\tzombies\ttransfers\n")
	for _, l := range a.samples {
		fmt.Fprintf(&table, "%.0f\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", l.at.Seconds(), l.resident>>10, l.descriptors,
			l.goroutines, l.threads, l.processes, l.zombies, l.transfers)
	}
	if dir := os.Getenv("HAUL_SOAK_TABLE"); dir != "" {
		t.Logf("in %s:\n%s", write(t, filepath.Join(dir, "soak-"+name+".tsv"), []byte(table.String())), table.String())
	}
	quarter := len(a.samples) / 4
	if quarter == 0 {
		t.Fatalf("%d samples are too few", len(a.samples))
	}
	for _, c := range []struct {
		what  string
		value func(level) int64
		more  func(before int64) int64
	}{
		{"resident bytes", func(l level) int64 { return l.resident }, func(n int64) int64 { return flatMemory + n/10 }},
		{"descriptors", func(l level) int64 { return int64(l.descriptors) }, func(int64) int64 { return math.MaxInt64 }},
		{"goroutines", func(l level) int64 { return int64(l.goroutines) }, func(int64) int64 { return math.MaxInt64 }},
		{"threads", func(l level) int64 { return int64(l.threads) }, func(int64) int64 { return flatThreads }},
		{"processes", func(l level) int64 { return int64(l.processes) }, func(int64) int64 { return soakProcesses * (1 + int64(soakSilence/a.often(reloadEvery))) }},
	} {
		var medians []int64
		most := int64(math.MinInt64)
		for q := range 4 {
			part := a.samples[q*quarter : (q+1)*quarter]
			var values []int64
			for _, l := range part {
				values = append(values, c.value(l))
				most = max(most, c.value(l))
			}
			slices.Sort(values)
			medians = append(medians, values[len(values)/2])
		}
		t.Logf("%s: medians of the quarters %d, most %d", c.what, medians, most)
		if grown := medians[3] - medians[1]; a.length >= flatFrom && grown > c.more(medians[1]) {
			t.Errorf("%s have grown by %d, from %d; %d are allowed", c.what, grown, medians[1], c.more(medians[1]))
		}
	}
}

// watch keeps the status page's stream open, as a browser does, and opens it again when it ends.
func (a *soakAll) watch(ctx context.Context) {
	client := http.Client{Transport: aloneTransport()}
	for failed := 0; ctx.Err() == nil; {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.page+"/events", http.NoBody)
		if err != nil {
			a.failed.add(err)
			return
		}
		answer, err := client.Do(r)
		if err != nil {
			if failed++; failed == 3 && ctx.Err() == nil {
				a.failed.add(fmt.Errorf("the status page's stream: %w", err))
				return
			}
			continue
		}
		failed = 0
		if answer.StatusCode != http.StatusOK {
			a.failed.add(fmt.Errorf("the status page's stream: %s", answer.Status))
		}
		a.did("stream of the page")
		_, _ = io.Copy(io.Discard, answer.Body) // a reload ends it
		answer.Body.Close()
	}
}

// top reads what an administrator looks at.
func (a *soakAll) top(uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	said, err := a.server.run(ctx, "top", a.page)
	if err != nil || !strings.Contains(said, "TFTP") {
		return fmt.Errorf("haul top: %w, and it said %q", err, said)
	}
	a.did("haul top")
	return nil
}

// aloneTransport makes a new connection for each request.
func aloneTransport() *http.Transport { return &http.Transport{DisableKeepAlives: true} }

func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }
