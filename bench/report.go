package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// A result is one load on one server, once.
type result struct {
	Time    string `json:"time"`
	Commit  string `json:"commit"`
	Machine string `json:"machine"`
	Kernel  string `json:"kernel"`
	Go      string `json:"go"`

	Server  string `json:"server"`
	Version string `json:"version"`
	Load    string `json:"load"`
	Round   int    `json:"round"`

	Seconds            float64 `json:"seconds"`
	MBps               float64 `json:"mb_per_second"`
	PacketsPerSecond   float64 `json:"data_packets_per_second"`
	CPUMicrosPerPacket float64 `json:"server_cpu_us_per_data_packet"`
	CPUSource          string  `json:"cpu_source"`
}

// table shows the medians, and haul's ratio to the peer.
func table(servers []server, results []result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-40s %-15s %8s %12s %8s %8s\n", "load", "server", "MB/s", "(min-max)", "srv us", "x MB/s")
	for _, l := range loads {
		ours := median(results, "haul", l.name, func(r result) float64 { return r.MBps })
		for _, server := range servers {
			s := server.name
			rates := values(results, s, l.name, func(r result) float64 { return r.MBps })
			rate := median(results, s, l.name, func(r result) float64 { return r.MBps })
			cpu := median(results, s, l.name, func(r result) float64 { return r.CPUMicrosPerPacket })
			spread := fmt.Sprintf("%.0f-%.0f", slices.Min(rates), slices.Max(rates))
			fmt.Fprintf(&b, "%-40s %-15s %8.1f %12s %8.2f %8.2f\n", l.name, s, rate, spread, cpu, ours/rate)
		}
	}
	b.WriteString("srv us: user and system CPU of the server per DATA packet; x MB/s: haul's rate over this one's\n")
	return b.String()
}

func values(results []result, server, load string, of func(result) float64) []float64 {
	var vs []float64
	for _, r := range results {
		if r.Server == server && r.Load == load {
			vs = append(vs, of(r))
		}
	}
	return vs
}

func median(results []result, server, load string, of func(result) float64) float64 {
	vs := values(results, server, load, of)
	slices.Sort(vs)
	if n := len(vs); n%2 == 0 {
		return (vs[n/2-1] + vs[n/2]) / 2
	}
	return vs[len(vs)/2]
}

// save appends the results to a file.
func save(path string, results []result) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(f)
	for _, r := range results {
		if err := enc.Encode(r); err != nil {
			_ = f.Close()
			return err
		}
	}
	return f.Close()
}
