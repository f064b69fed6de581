package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/remote"
	"github.com/haul-project/haul/tftp/load"
	"github.com/haul-project/haul/tftp/transfer"
)

const benchHelp = `Measure a TFTP server under load, or make the files for it.`

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure a server under load",
		Long:    benchHelp,
		Example: "  haul bench files /srv/tftp --size 1MB --count 100\n  haul bench tftp tftp://192.0.2.1/f{} -c 100 --names 100 --pattern",
		Args:    noCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchTFTP(), newBenchFiles())
	return cmd
}

const benchTFTPHelp = `Act as many clients of a TFTP server at once, and measure what they get.

Any server will do. "{}" in the name becomes the number of the transfer, from 0 on.
haul compares every byte: with its test content by --pattern (see "haul bench files"),
otherwise with the first download of that name. Nothing is written to disk.

The load generator takes processor time too, on one machine from the server;
"saturated" warns if it is the generator that is measured. A server may limit the
requests of one address: haul does at 1000 a second from another host, unless "haul
serve --rate -1" says otherwise.

The exit code is 0 if all transfers were right, 5 if the server does not answer, 130 if
interrupted (what was done until then is printed), and otherwise 1.`

const benchTFTPExamples = `  haul bench tftp tftp://192.0.2.1/boot/kernel -c 100 -n 1000
  haul bench tftp tftp://192.0.2.1/f{} -c 10000 --names 100 --pattern --size 1MB
  haul bench tftp tftp://192.0.2.1/kernel --blksize 1468 --windowsize 64 --loss 0.01
  haul bench tftp tftp://192.0.2.1/up{} --put --size 10MB -c 3 --verify
  haul bench tftp tftp://192.0.2.1/small --rate 2000 -c 1000 --duration 30s --json`

// errBenchFailed says that some transfers failed. The report has the reasons.
var errBenchFailed = errors.New("some transfers failed")

func newBenchTFTP() *cobra.Command {
	var l load.Load
	var asJSON bool
	size := console.ByteSize(0)
	cmd := &cobra.Command{
		Use:         "tftp URL",
		Short:       "Put a TFTP server under load",
		Long:        benchTFTPHelp,
		Example:     benchTFTPExamples,
		Args:        args(cobra.ExactArgs(1)),
		Annotations: more("concurrency transfers names rate put size blksize windowsize loss timeout duration pattern verify json", "json", "sizes"),
		RunE: func(cmd *cobra.Command, urls []string) error {
			var err error
			if cmd.Flags().Changed("concurrency") && l.Concurrency < 1 {
				return failure.Usage.Errorf("--concurrency %d: it is 1 to %d", l.Concurrency, load.MaxConcurrency)
			}
			if l.Target, err = remote.ParseTFTP(urls[0]); err != nil {
				return err
			}
			if l.Write && !cmd.Flags().Changed("size") {
				return failure.Usage.Errorf("--put needs --size: how long the files are to be")
			}
			l.Size = int64(size)
			if err := checkLoad(&l, urls[0]); err != nil {
				return err
			}
			if err := bench(cmd.Context(), &l, asJSON, cmd.OutOrStdout(), cmd.ErrOrStderr()); err != nil {
				return benchError{urls[0], err}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVarP(&l.Concurrency, "concurrency", "c", 1, "run `N` transfers at a time, 1 to 10000")
	flags.IntVarP(&l.Transfers, "transfers", "n", 0, "run `N` transfers in all (0: as many as --concurrency, or with --duration no limit)")
	flags.IntVar(&l.Names, "names", 0, "let \"{}\" stand for `N` names in turn (0: another for each transfer)")
	flags.Float64Var(&l.Rate, "rate", 0, "begin `N` transfers a second, whether others are done or not, while --concurrency allows (0: begin one when another ends)")
	flags.BoolVar(&l.Write, "put", false, "send files instead of fetching them")
	flags.Var(&size, "size", "size of each file; for downloads, the size that must come")
	flags.IntVar(&l.BlockSize, "blksize", 0, "ask for blocks of `N` bytes, 8 to 65464 (0: do not ask)")
	flags.IntVar(&l.Window, "windowsize", 0, "ask for windows of `N` blocks, 1 to 65535 (0: do not ask)")
	flags.BoolVar(&l.NoOptions, "no-options", false, "ask for no options at all, not even tsize")
	flags.Float64Var(&l.Loss, "loss", 0, "drop this `PART` of the datagrams each way, 0 to 0.9; 0.01 is one in a hundred")
	flags.Uint64Var(&l.Seed, "seed", 1, "`NUMBER` that selects the datagrams to drop")
	flags.DurationVar(&l.Timeout, "timeout", load.DefaultTimeout, "give each transfer this `TIME`")
	flags.DurationVar(&l.MinTimer, "min-timer", 0, "wait at least this `TIME` before a packet is sent again (0: by measured round trips, and at least 10ms)")
	flags.DurationVar(&l.Duration, "duration", 0, "begin transfers for this `TIME` (0: until all have begun)")
	flags.IntVar(&l.Loops, "loops", 1, "drive the transfers by `N` threads")
	flags.IntVar(&l.Warmup, "warmup", 0, "run `N` transfers first that do not count")
	flags.BoolVar(&l.Pattern, "pattern", false, "compare with haul's test content")
	flags.BoolVar(&l.Verify, "verify", false, "fetch again what was sent, and compare")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// bench runs a load and prints what came of it, however it ended.
func bench(ctx context.Context, l *load.Load, asJSON bool, stdout, stderr io.Writer) error {
	if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		l.Progress = func(p load.Progress) { fmt.Fprint(f, "\r"+progressOf(p)+"\x1b[K") }
	}
	report, err := l.Run(ctx)
	if l.Progress != nil {
		fmt.Fprint(stderr, "\r\x1b[K")
	}
	if err == nil && silent(&report) {
		err = fmt.Errorf("nothing came in %v (is a server there, and does a firewall let UDP through?): %w", l.Timeout, transfer.ErrSilent)
	}
	// If no server was there, the error is enough.
	if report.Duration > 0 && (err == nil || report.Bytes > 0 || errors.Is(err, context.Canceled)) {
		var failed error
		if asJSON {
			failed = writeBenchJSON(stdout, l, &report)
		} else {
			failed = writeBenchText(stdout, &report)
		}
		if failed != nil {
			return failure.Local.Wrap(failed)
		}
	}
	if err == nil && report.Failed > 0 {
		return errBenchFailed
	}
	return err
}

// progressOf describes in a line how far a run is.
func progressOf(p load.Progress) string {
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

// A benchResult is what "haul bench tftp --json" prints.
type benchResult struct {
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
	Latency          benchLatency     `json:"latency_ms"`
	First            benchLatency     `json:"first_ms"`
	ClientCPUSeconds float64          `json:"client_cpu_seconds"`
	ClientCPUShare   float64          `json:"client_cpu_share"`
	Busy             float64          `json:"busy"`
	Saturated        bool             `json:"saturated"`
	AgreedBlockSize  int              `json:"agreed_blksize"`
	AgreedWindow     int              `json:"agreed_windowsize"`
	Concurrency      int              `json:"concurrency"`
	Size             int64            `json:"size"`
	BlockSize        int              `json:"blksize"`
	Window           int              `json:"windowsize"`
	Write            bool             `json:"write"`
	Loss             float64          `json:"loss"`
	Seed             uint64           `json:"seed"`
	Loops            int              `json:"loops"`
}

// A benchLatency has its percentiles in milliseconds.
type benchLatency struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func milliseconds(l load.Latency) benchLatency {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return benchLatency{ms(l.P50), ms(l.P90), ms(l.P99), ms(l.Max)}
}

func writeBenchJSON(out io.Writer, l *load.Load, r *load.Report) error {
	bytes, packets := r.PerSecond()
	return json.NewEncoder(out).Encode(benchResult{
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
		Concurrency:      l.Concurrency,
		Size:             l.Size,
		BlockSize:        l.BlockSize,
		Window:           l.Window,
		Write:            l.Write,
		Loss:             l.Loss,
		Seed:             l.Seed,
		Loops:            r.Loops,
	})
}

func writeBenchText(out io.Writer, r *load.Report) error {
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
	latency := func(name string, l load.Latency) {
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

// maxBenchFiles is how many files one command makes.
const maxBenchFiles = load.MaxNames

const benchFilesHelp = `Write files with haul's test content into a directory.

"haul bench tftp --pattern" compares this content with what a server sends. It depends
on the offset alone: files of one size are equal, on all machines.`

const benchFilesExamples = `  haul bench files /srv/tftp --size 1MB --count 100
  haul bench files /srv/tftp --size 64k --count 1 --name small`

func newBenchFiles() *cobra.Command {
	var count int
	var name string
	size := console.ByteSize(1 << 20)
	cmd := &cobra.Command{
		Use:     "files DIR",
		Short:   "Make files for a benchmark",
		Long:    benchFilesHelp,
		Example: benchFilesExamples,
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, dirs []string) error {
			switch {
			case count < 1 || count > maxBenchFiles:
				return failure.Usage.Errorf("--count %d: must be 1 to %d", count, maxBenchFiles)
			case count > 1 && !strings.Contains(name, "{}"):
				return failure.Usage.Errorf("--name %q: several files need a {} in it, for their number", name)
			case name == "" || !filepath.IsLocal(name):
				return failure.Usage.Errorf("--name %q: must be a name inside the directory", name)
			}
			for i := range count {
				path := filepath.Join(dirs[0], strings.ReplaceAll(name, "{}", strconv.Itoa(i)))
				if err := writeBenchFile(path, int64(size)); err != nil {
					return failure.Local.Wrap(err)
				}
			}
			return nil
		},
	}
	cmd.Flags().Var(&size, "size", "size of each file")
	cmd.Flags().IntVar(&count, "count", 1, "write `N` files")
	cmd.Flags().StringVar(&name, "name", "f{}", "`NAME` of each file, in which \"{}\" stands for its number")
	return cmd
}

// writeBenchFile writes one file of test content.
func writeBenchFile(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, load.Pattern(size)); err != nil {
		_ = f.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	return f.Close()
}

// byLoad begins the errors of package load, which name the package.
const byLoad = "load: "

// A benchError is why a benchmark did not come to its end, or not to a good
// one, in the words of the command line.
type benchError struct {
	url string // as it was typed
	err error
}

func (e benchError) Error() string {
	// Behind "warm-up: ", the prefix is not the first.
	return fmt.Sprintf("bench %s: %s", e.url, strings.Replace(e.err.Error(), byLoad, "", 1))
}

func (e benchError) Unwrap() error { return e.err }

// loadFlags are the flags for what package load names otherwise.
var loadFlags = []struct{ said, flag string }{{"warm-up", "warmup"}, {"shortest timer", "min-timer"}}

// checkLoad says what is wrong with a load, and which flag it comes from.
func checkLoad(l *load.Load, url string) error {
	if err := l.Target.Check(); err != nil {
		return failure.Usage.Errorf("URL %q: %w", url, err)
	}
	switch {
	case l.Target.Mode != transfer.Octet:
		return failure.Usage.Errorf("URL %q: only mode octet can be measured", url)
	case l.NoOptions && (l.BlockSize != 0 || l.Window != 0):
		return failure.Usage.Errorf("--no-options asks for none, and --blksize and --windowsize are options")
	case l.Verify && !l.Write:
		return failure.Usage.Errorf("--verify fetches again what --put has sent; downloads are compared anyway")
	}
	err := l.Check()
	if err == nil {
		return nil
	}
	text := strings.TrimPrefix(err.Error(), byLoad) // it begins with a name, and the value
	for _, f := range loadFlags {
		if rest, ok := strings.CutPrefix(text, f.said); ok {
			text = f.flag + rest
		}
	}
	return failure.Usage.Errorf("--%s", text)
}

// silent reports whether no transfer got any answer, so that each ran out of time. A
// run that package load itself gives up, after some seconds, does not count.
func silent(r *load.Report) bool {
	if r.Transfers == 0 || r.Failed < r.Transfers || r.First != (load.Latency{}) {
		return false
	}
	for text := range r.Errors {
		if !strings.Contains(text, "not done in ") && !strings.Contains(text, transfer.ErrSilent.Error()) {
			return false // this machine's doing, such as that it has no port left
		}
	}
	return true
}
