package boot

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/golden"
	"github.com/haul-project/haul/internal/race"
)

// docs/scale.md has the figures that this package computes between these markers.
const (
	scaleDoc   = "../../../../docs/scale.md"
	scaleBegin = "<!-- scale:begin -->\n"
	scaleEnd   = "<!-- scale:end -->"
)

// docs/scale.md has the figures of the simulation. The flag -update rewrites them.
func TestScaleDocument(t *testing.T) {
	if race.Enabled {
		t.Skip("half a minute, and nothing here runs at once")
	}
	doc := readDoc(t, scaleDoc)
	before, rest, ok := strings.Cut(doc, scaleBegin)
	_, after, ok2 := strings.Cut(rest, scaleEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no %s", scaleDoc, scaleBegin)
	}
	golden.Compare(t, "../"+scaleDoc, before+scaleBegin+scaleTable(t)+scaleEnd+after)
}

func readDoc(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), "\r\n", "\n")
}

// scaleTable simulates ten thousand machines with links of 1, 10 and 100 Gb/s.
func scaleTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("\n| link of a replica | image | replicas, by arithmetic | links alone | cores busy | 50, 95, 100 % up | one replica lost: 50, 95, 100 % up | store: with a cache | without |\n" +
		"|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, link := range []float64{1, 10, 100} {
		for _, image := range []int64{60e6, 1e9} {
			s := DefaultSite()
			s.Link, s.Image = link*Gigabit, image
			s.Replicas = s.ReplicasFor(10*time.Minute) + 1 // one may be lost
			s.Store = 100 * Gigabit
			r := simulate(t, s)
			lost := s
			lost.LostAt, lost.BackAt = 150*time.Second, 5*time.Minute
			without := s
			without.Cache = false
			bare := simulate(t, without)
			cores := r.CPU.Seconds() / last(r).Seconds()
			fmt.Fprintf(&b, "| %g Gb/s | %s | %d + 1 | %s | %.2f | %s | %s | %d reads, %s | %d reads, %s |\n",
				link, size(image), s.Replicas-1, minutes(s.Bound().Link), cores, ups(t, s, r), ups(t, lost, simulate(t, lost)),
				r.StoreReads, size(r.StoreBytes), bare.StoreReads, size(bare.StoreBytes))
		}
	}
	b.WriteString("\n")
	return b.String()
}

// ups formats the times at which 50, 95 and 100 % of the machines were up.
func ups(t *testing.T, s Site, r Simulated) string {
	t.Helper()
	var all []string
	for _, part := range []float64{0.5, 0.95, 1} {
		at, ok := When(r.Up, s.Machines, part)
		if !ok {
			t.Fatalf("%v of the machines never came up", part)
		}
		all = append(all, minutes(at))
	}
	return strings.Join(all, ", ")
}

// minutes formats a time as minutes:seconds.
func minutes(d time.Duration) string {
	d = d.Round(time.Second)
	return fmt.Sprintf("%d:%02d", d/time.Minute, d%time.Minute/time.Second)
}

func size(n int64) string {
	switch {
	case n >= 1e12:
		return fmt.Sprintf("%.4g TB", float64(n)/1e12)
	case n >= 1e9:
		return fmt.Sprintf("%.4g GB", float64(n)/1e9)
	}
	return fmt.Sprintf("%.4g MB", float64(n)/1e6)
}

// The measured figures are those of docs/benchmarks.md and of the tables in bench/results/latest.
func TestMeasuredFigures(t *testing.T) {
	doc := readDoc(t, "../../../../docs/benchmarks.md") + readDoc(t, "../../../../bench/results/latest/README.md")
	for row, want := range map[string]string{
		"| 10000 files of 64kB down, 10000 at the same time, lock-step | server us/packet | ": fmt.Sprintf("%.2f |", PacketCPU*1e6),
		"**8 times 256 MiB by HTTP, one after the other**":                                    fmt.Sprintf("| %.3f |", ByteCPU*1e9),
	} {
		_, rest, ok := strings.Cut(doc, row)
		if row[0] == '*' {
			_, rest, _ = strings.Cut(rest, "| haul |")
		}
		line, _, _ := strings.Cut(rest, "\n")
		if !ok || !strings.Contains(line, want) {
			t.Errorf("the tables have %q behind %q, not %q: change the constant in site.go, and docs/scale.md", line, row, want)
		}
	}
}
