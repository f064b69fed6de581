package bootload

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/haul-project/haul/cmd/haul/internal/boot"
	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
)

// WriteSiteText writes for people how the machines of a site came up in the simulation, and the
// lower bounds, which are computed without a simulation.
func WriteSiteText(out io.Writer, s *boot.Site, r *boot.Simulated) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	b := s.Bound()
	line("machines", "%d, of which %d came up, and %d failed", s.Machines, len(r.Up), r.Failed)
	writeUp(line, r.Up, s.Machines)
	writeAgain(line, r.Failures, r.Count)
	line("bounds", "links %v, cores %v, last machine on after %v", console.FormatDuration(b.Link), console.FormatDuration(b.CPU), console.FormatDuration(b.Arrival))
	line("content", "%s", console.FormatBytes(r.Count.Loader+r.Count.Image))
	line("replicas", "%d, with %.0f s of CPU time in all", s.Replicas, r.CPU.Seconds())
	line("store", "%d files read, %s", r.StoreReads, console.FormatBytes(r.StoreBytes))
	return w.Flush()
}

// A siteResult is the JSON form of a simulation's result. Later versions may add fields, but never
// remove one.
type siteResult struct {
	Machines     int            `json:"machines"`
	Up           int            `json:"up"`
	Failed       int            `json:"failed"`
	UpSeconds    upSeconds      `json:"up_seconds"`
	Failures     map[string]int `json:"failures"`
	PowerCycles  int            `json:"power_cycles"`
	Reloads      int            `json:"loaders_again"`
	Resumes      int            `json:"images_continued"`
	Again        int            `json:"images_again"`
	LoaderBytes  int64          `json:"loader_bytes"`
	ImageBytes   int64          `json:"image_bytes"`
	LinkSeconds  float64        `json:"link_seconds"`
	CoreSeconds  float64        `json:"core_seconds"`
	CPUSeconds   float64        `json:"cpu_seconds"`
	StoreReads   int            `json:"store_reads"`
	StoreBytes   int64          `json:"store_bytes"`
	Replicas     int            `json:"replicas"`
	Seed         uint64         `json:"seed"`
	ArrivalCurve string         `json:"arrival"`
}

// WriteSiteJSON writes the same results as WriteSiteText, as one JSON object.
func WriteSiteJSON(out io.Writer, s *boot.Site, r *boot.Simulated) error {
	b := s.Bound()
	return json.NewEncoder(out).Encode(siteResult{
		Machines: s.Machines, Up: len(r.Up), Failed: r.Failed, UpSeconds: upSecondsOf(r.Up, s.Machines), Failures: r.Failures,
		PowerCycles: r.Count.Cycles, Reloads: r.Count.Reloads, Resumes: r.Count.Resumes, Again: r.Count.Again,
		LoaderBytes: r.Count.Loader, ImageBytes: r.Count.Image,
		LinkSeconds: b.Link.Seconds(), CoreSeconds: b.CPU.Seconds(), CPUSeconds: r.CPU.Seconds(),
		StoreReads: r.StoreReads, StoreBytes: r.StoreBytes, Replicas: s.Replicas, Seed: s.Plan.Seed, ArrivalCurve: s.Arrival.String(),
	})
}
