package load

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
)

// String describes the state of the run in one line.
func (p Progress) String() string {
	what := ""
	if p.Warmup {
		what = "warm-up: "
	}
	of := ""
	if p.Transfers > 0 {
		of = fmt.Sprintf(" of %d", p.Transfers)
	}
	return fmt.Sprintf("%s%d%s transfers, %d failed, %s, %s/s, %v", what, p.Done, of, p.Failed,
		console.FormatBytes(p.Bytes), console.FormatBytes(console.PerSecond(p.Bytes, p.Elapsed)), p.Elapsed.Round(time.Second))
}

// A result is a report as JSON. Names may be added to it, but never change or disappear.
type result struct {
	Seconds          float64          `json:"seconds"`
	Transfers        int64            `json:"transfers"`
	Failed           int64            `json:"failed"`
	Errors           map[string]int64 `json:"errors"`
	Bytes            int64            `json:"bytes"`
	MBPerSecond      float64          `json:"mb_per_second"`
	DataPackets      int64            `json:"data_packets"`
	PacketsPerSecond float64          `json:"packets_per_second"`
	Resent           int64            `json:"resent"`
	Duplicates       int64            `json:"duplicates"`
	Timeouts         int64            `json:"timeouts"`
	Late             int64            `json:"late"`
	Cut              int64            `json:"cut"`
	Verified         int64            `json:"verified"`
	Latency          percentiles      `json:"latency_ms"`
	First            percentiles      `json:"first_ms"`
	ClientCPUSeconds float64          `json:"client_cpu_seconds"`
	ClientCPUShare   float64          `json:"client_cpu_share"`
	Busy             float64          `json:"busy"`
	Saturated        bool             `json:"saturated"`
	AgreedBlockSize  int              `json:"agreed_blksize"`
	AgreedWindow     int              `json:"agreed_windowsize"`
	settings
}

// settings holds the settings of the load, which a result repeats.
type settings struct {
	Concurrency int     `json:"concurrency"`
	Size        int64   `json:"size"`
	BlockSize   int     `json:"blksize"`
	Window      int     `json:"windowsize"`
	Write       bool    `json:"write"`
	Loss        float64 `json:"loss"`
	Seed        uint64  `json:"seed"`
	Loops       int     `json:"loops"`
}

// percentiles holds a [Latency] in milliseconds.
type percentiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func milliseconds(l Latency) percentiles {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return percentiles{ms(l.P50), ms(l.P90), ms(l.P99), ms(l.Max)}
}

// WriteJSON writes a report on l as one JSON object.
func (r *Report) WriteJSON(out io.Writer, l *Load) error {
	bytes, packets := r.PerSecond()
	return json.NewEncoder(out).Encode(result{
		Seconds:          r.Duration.Seconds(),
		Transfers:        r.Transfers,
		Failed:           r.Failed,
		Errors:           r.Errors,
		Bytes:            r.Bytes,
		MBPerSecond:      bytes / 1e6,
		DataPackets:      r.Packets,
		PacketsPerSecond: packets,
		Resent:           r.Resent,
		Duplicates:       r.Duplicates,
		Timeouts:         r.Timeouts,
		Late:             r.Late,
		Cut:              r.Cut,
		Verified:         r.Verified,
		Latency:          milliseconds(r.Latency),
		First:            milliseconds(r.First),
		ClientCPUSeconds: r.CPU.Seconds(),
		ClientCPUShare:   r.CPUShare(),
		Busy:             r.Busy,
		Saturated:        r.Saturated(),
		AgreedBlockSize:  r.BlockSize,
		AgreedWindow:     r.Window,
		settings: settings{
			Concurrency: l.Concurrency,
			Size:        l.Size,
			BlockSize:   l.BlockSize,
			Window:      l.Window,
			Write:       l.Write,
			Loss:        l.Loss,
			Seed:        l.Seed,
			Loops:       r.Loops,
		},
	})
}

// WriteText writes a report as text.
func (r *Report) WriteText(out io.Writer) error {
	bytes, packets := r.PerSecond()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	line("transfers", "%d in %v, %d failed", r.Transfers, console.FormatDuration(r.Duration), r.Failed)
	if r.Cut > 0 {
		line("", "%d more were under way", r.Cut)
	}
	if r.Late > 0 {
		line("", "%d began late: all of --concurrency were under way, or this machine was busy", r.Late)
	}
	if r.Verified > 0 {
		line("", "%d fetched again, and as sent", r.Verified)
	}
	for _, text := range slices.Sorted(maps.Keys(r.Errors)) {
		line("", "%d x %s", r.Errors[text], text)
	}
	line("content", "%s, %s/s", console.FormatBytes(r.Bytes), console.FormatBytes(int64(bytes)))
	line("packets", "%d of DATA, %.0f/s, blksize %d, windowsize %d", r.Packets, packets, r.BlockSize, r.Window)
	line("losses", "%d resent, %d came twice, %d timeouts", r.Resent, r.Duplicates, r.Timeouts)
	latency := func(name string, l Latency) {
		line(name, "p50 %v, p90 %v, p99 %v, max %v",
			console.FormatDuration(l.P50), console.FormatDuration(l.P90), console.FormatDuration(l.P99), console.FormatDuration(l.Max))
	}
	if r.Transfers > r.Failed {
		latency("whole transfer", r.Latency)
	}
	latency("first answer", r.First)
	line("generator", "%.2f s of CPU time, %.0f %% of a processor, loop busy for %.0f %%", r.CPU.Seconds(), 100*r.CPUShare(), 100*r.Busy)
	if r.Saturated() {
		line("", "it was its own bottleneck: try --loops 2, or another machine")
	}
	return w.Flush()
}
