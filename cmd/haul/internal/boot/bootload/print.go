package bootload

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot"
	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
)

// String describes the progress of a run in one line.
func (p Progress) String() string {
	bytes := p.LoaderBytes + p.ImBytes
	return fmt.Sprintf("%d of %d up, %d switched on, %d failed, %s, %v",
		p.Up, p.Machines, p.On, p.Failed, console.FormatBytes(bytes), p.Elapsed.Round(time.Second))
}

// parts lists shares of the fleet. For each share, a report shows the time by which that many
// machines were up.
var parts = []struct {
	name string
	part float64
}{{"50 %", 0.5}, {"95 %", 0.95}, {"100 %", 1}}

// WriteText writes a report for people.
func (r *Report) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	line("machines", "%d, of which %d came up in %v, and %d failed", r.Machines, r.Up(), console.FormatDuration(r.Duration), r.Failed)
	if r.Cut > 0 {
		line("", "%d more were booting, or not switched on yet", r.Cut)
	}
	writeUp(line, r.up, r.Machines)
	if r.Up() > 0 {
		line("one machine", "p50 %v, p95 %v, max %v, from when it was switched on", console.FormatDuration(r.Took(0.5)),
			console.FormatDuration(r.Took(0.95)), console.FormatDuration(r.Took(1)))
	}
	writeAgain(line, r.Failures, r.Count)
	for _, cause := range slices.Sorted(maps.Keys(r.Retried)) {
		line("", "%d x %s", r.Retried[cause], cause)
	}
	line("content", "%s, %s/s; loader %s, image %s", console.FormatBytes(r.Bytes()), console.FormatBytes(int64(r.PerSecond())),
		console.FormatBytes(r.LoaderSize), console.FormatBytes(r.ImageSize))
	for _, s := range slices.Concat(r.Loaders, r.Images) {
		line("server", "%s: %d transfers, %d failed, %s", s.URL, s.Transfers, s.Failed, console.FormatBytes(s.Bytes))
	}
	line("generator", "%.2f s of CPU time", r.CPU.Seconds())
	return w.Flush()
}

// writeUp writes, for each share in `parts`, how long it took until that share of the machines was
// up.
func writeUp(line func(name, format string, args ...any), up []time.Duration, machines int) {
	for _, p := range parts {
		if at, ok := boot.When(up, machines, p.part); ok {
			line(p.name+" up", "after %v", console.FormatDuration(at))
		} else {
			line(p.name+" up", "never")
		}
	}
}

// writeAgain writes why machines failed, and how many failed for each cause. It also writes how
// many times machines lost power, resumed an image, or fetched a loader or an image again.
func writeAgain(line func(name, format string, args ...any), failures map[string]int, c boot.Count) {
	for _, cause := range slices.Sorted(maps.Keys(failures)) {
		line("failed", "%d x %s", failures[cause], cause)
	}
	line("again", "%d lost power, %d loaders began again, %d images continued, %d images began again", c.Cycles, c.Reloads, c.Resumes, c.Again)
}

// A result is the JSON form of a report. Later versions may add fields, but never remove one.
type result struct {
	Seconds          float64        `json:"seconds"`
	Machines         int            `json:"machines"`
	Up               int            `json:"up"`
	Failed           int            `json:"failed"`
	Cut              int            `json:"cut"`
	UpSeconds        upSeconds      `json:"up_seconds"`
	BootSeconds      bootSeconds    `json:"boot_seconds"`
	Failures         map[string]int `json:"failures"`
	Retried          map[string]int `json:"retried"`
	PowerCycles      int            `json:"power_cycles"`
	Reloads          int            `json:"loaders_again"`
	Resumes          int            `json:"images_continued"`
	Again            int            `json:"images_again"`
	LoaderBytes      int64          `json:"loader_bytes"`
	ImageBytes       int64          `json:"image_bytes"`
	MBPerSecond      float64        `json:"mb_per_second"`
	LoaderSize       int64          `json:"loader_size"`
	ImageSize        int64          `json:"image_size"`
	Loaders          []Server       `json:"loaders"`
	Images           []Server       `json:"images"`
	ClientCPUSeconds float64        `json:"client_cpu_seconds"`
	Arrival          string         `json:"arrival"`
	Firmware         string         `json:"firmware"`
	Lost             float64        `json:"lost"`
	Seed             uint64         `json:"seed"`
}

// upSeconds holds the times at which parts of the machines were up. null means never.
type upSeconds struct {
	P50  *float64 `json:"p50"`
	P95  *float64 `json:"p95"`
	P100 *float64 `json:"p100"`
}

func upSecondsOf(up []time.Duration, machines int) upSeconds {
	var all [3]*float64
	for i, p := range parts {
		if at, ok := boot.When(up, machines, p.part); ok {
			seconds := at.Seconds()
			all[i] = &seconds
		}
	}
	return upSeconds{all[0], all[1], all[2]}
}

// bootSeconds holds percentiles of the time that a machine took to boot.
type bootSeconds struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	Max float64 `json:"max"`
}

// WriteJSON writes a report as one JSON object. c is the Config of the run.
func (r *Report) WriteJSON(out io.Writer, c *Config) error {
	return json.NewEncoder(out).Encode(result{
		Seconds: r.Duration.Seconds(), Machines: r.Machines, Up: r.Up(), Failed: r.Failed, Cut: r.Cut,
		UpSeconds:   upSecondsOf(r.up, r.Machines),
		BootSeconds: bootSeconds{r.Took(0.5).Seconds(), r.Took(0.95).Seconds(), r.Took(1).Seconds()},
		Failures:    r.Failures, Retried: r.Retried,
		PowerCycles: r.Count.Cycles, Reloads: r.Count.Reloads, Resumes: r.Count.Resumes, Again: r.Count.Again,
		LoaderBytes: r.Count.Loader, ImageBytes: r.Count.Image, MBPerSecond: r.PerSecond() / 1e6,
		LoaderSize: r.LoaderSize, ImageSize: r.ImageSize,
		Loaders: r.Loaders, Images: r.Images,
		ClientCPUSeconds: r.CPU.Seconds(),
		Arrival:          c.Arrival.String(), Firmware: c.Plan.Firmware.Name, Lost: 100 * c.Plan.Lost, Seed: c.Plan.Seed,
	})
}

// WriteSVG draws how many machines were switched on and up over time.
func (r *Report) WriteSVG(out io.Writer) error {
	return WriteSVG(out, r.arrived, r.up, r.Machines, r.Duration)
}
