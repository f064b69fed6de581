package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/haul-project/haul/bench/suite/record"
)

// transferLimit is the time after which the load generator counts a transfer as failed.
const transferLimit = "90s"

// maxNames is the largest number of files in a scenario. If there are more transfers, they share
// files, so that ten thousand transfers do not need gigabytes of page cache.
const maxNames = 100

const uploadPrefix = "up-"

// generated holds the output of "haul bench tftp --json".
type generated struct {
	Seconds     float64
	Transfers   float64
	Failed      float64
	Errors      map[string]int
	Bytes       float64
	DataPackets float64 `json:"data_packets"`
	Resent      float64
	Timeouts    float64
	Latency     percentiles `json:"latency_ms"`
	First       percentiles `json:"first_ms"`
	CPUShare    float64     `json:"client_cpu_share"`
	Saturated   bool
}

type percentiles struct{ P50, P90, P99, Max float64 }

// fileName returns the name of file i of a size. i is a number, or "{}" for haul to replace by a
// number.
func fileName(size int64, i string) string { return fmt.Sprintf("f%d-%s", size, i) }

// names returns the number of different files in a load.
func names(l record.Load) int { return min(l.Transfers, maxNames) }

// makeFiles writes the files that a load downloads into the served directory.
func (st *stage) makeFiles(ctx context.Context, l record.Load) error {
	if l.Write || l.Transfers == 0 {
		return nil
	}
	_, err := st.haul(ctx, "bench", "files", st.root, "--size", strconv.FormatInt(l.Size, 10),
		"--count", strconv.Itoa(names(l)), "--name", fileName(l.Size, "{}"))
	return err
}

// haul runs haul on the server's side of the link, if there is one, and returns its output.
func (st *stage) haul(ctx context.Context, args ...string) ([]byte, error) {
	return run(st.serverCommand(ctx, st.suite.Haul, args...))
}

// generate makes a load with the load generator.
func (st *stage) generate(ctx context.Context, l record.Load) (tally, error) {
	cmd := st.command(ctx, st.suite.Haul, generatorArgs(st.server.Addr().String(), l)...)
	out, runErr := run(cmd)
	var g generated
	// The generator prints its figures even if transfers failed; then it exits with 1.
	if err := json.Unmarshal(bytes.TrimSpace(out), &g); err != nil {
		if runErr == nil {
			runErr = fmt.Errorf("its result is no JSON: %w", err)
		}
		return tally{}, fmt.Errorf("load generator: %w", runErr)
	}
	return g.tally(), nil
}

func generatorArgs(server string, l record.Load) []string {
	name := fileName(l.Size, "{}")
	if l.Write {
		name = uploadPrefix + name
	}
	args := []string{
		"bench", "tftp", fmt.Sprintf("tftp://%s/%s", server, name), "--json", "--pattern",
		"--timeout", transferLimit,
		"--concurrency", strconv.Itoa(l.Concurrency), "--transfers", strconv.Itoa(l.Transfers),
		"--size", strconv.FormatInt(l.Size, 10),
	}
	add := func(flag string, set bool, value string) {
		if set {
			args = append(args, flag, value)
		}
	}
	if l.Write {
		args = append(args, "--put")
	} else {
		args = append(args, "--names", strconv.Itoa(names(l)))
	}
	if l.NoOptions {
		args = append(args, "--no-options")
	}
	add("--blksize", l.BlockSize > 0, strconv.Itoa(l.BlockSize))
	add("--windowsize", l.Window > 0, strconv.Itoa(l.Window))
	add("--loss", l.Loss > 0, strconv.FormatFloat(l.Loss, 'g', -1, 64))
	add("--seed", l.Seed > 0, strconv.FormatUint(l.Seed, 10))
	add("--rate", l.Rate > 0, strconv.FormatFloat(l.Rate, 'g', -1, 64))
	return args
}

func (g generated) tally() tally {
	t := tally{
		seconds: g.Seconds, bytes: g.Bytes, packets: g.DataPackets,
		figures: map[record.Metric]float64{
			record.Transfers: g.Transfers, record.Failed: g.Failed,
			record.Resent: g.Resent, record.Timeouts: g.Timeouts,
			record.LatencyP50: g.Latency.P50, record.LatencyP90: g.Latency.P90,
			record.LatencyP99: g.Latency.P99, record.LatencyMax: g.Latency.Max,
			record.FirstP50: g.First.P50, record.FirstP99: g.First.P99,
			record.GeneratorCPU:   g.CPUShare,
			record.SecondsPerFile: g.Latency.P50 / 1e3,
		},
	}
	for _, text := range slices.Sorted(maps.Keys(g.Errors)) {
		t.warnings = append(t.warnings, fmt.Sprintf("%d of %.0f transfers failed: %s", g.Errors[text], g.Transfers, text))
	}
	if g.Saturated {
		t.warnings = append(t.warnings, fmt.Sprintf(record.Saturated+": it took %.0f %% of a core, and the server could have done more", g.CPUShare*100))
	}
	return t
}
