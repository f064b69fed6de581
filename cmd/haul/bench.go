package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/cmd/haul/internal/tftp/load"
	"github.com/haul-project/haul/tftp/transfer"
)

const benchHelp = `Measure servers under load, or make the files for it.`

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure a server under load",
		Long:    benchHelp,
		Example: "  haul bench files /srv/tftp --size 1MB --count 100\n  haul bench tftp tftp://192.0.2.1/f{} -c 100 --names 100 --pattern\n  haul bench boot --machines 1000 --loader tftp://192.0.2.1/ipxe.efi --image http://192.0.2.1/root.img",
		Args:    program.NoCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchTFTP(), newBenchBoot(), newBenchFiles())
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

// errBenchFailed reports that some transfers failed. The report contains the reasons.
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
		Args:        commandline.Args(cobra.ExactArgs(1)),
		Annotations: commandline.More("concurrency transfers names rate put size blksize windowsize loss timeout duration pattern verify json", "json", "sizes"),
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
				return fmt.Errorf("bench %s: %w", urls[0], err)
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

// checkLoad checks the values of the flags that describe a load. Its error names the wrong flag.
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
	if err := l.Check(); err != nil {
		return failure.Usage.Errorf("--%w", err) // the error begins with the flag's name and value
	}
	return nil
}

// bench runs a load and prints the results, even after an error.
func bench(ctx context.Context, l *load.Load, asJSON bool, stdout, stderr io.Writer) error {
	if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		l.Progress = func(p load.Progress) { fmt.Fprint(f, "\r"+p.String()+"\x1b[K") }
	}
	report, err := l.Run(ctx)
	if l.Progress != nil {
		fmt.Fprint(stderr, "\r\x1b[K")
	}
	// If no server answered, there is nothing to report, and the error alone is enough.
	if report.Duration > 0 && (err == nil || report.Bytes > 0 || errors.Is(err, context.Canceled)) {
		var failed error
		if asJSON {
			failed = report.WriteJSON(stdout, l)
		} else {
			failed = report.WriteText(stdout)
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
		Args:    commandline.Args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, dirs []string) error {
			switch {
			case count < 1 || count > load.MaxNames:
				return failure.Usage.Errorf("--count %d: must be 1 to %d", count, load.MaxNames)
			case count > 1 && !strings.Contains(name, "{}"):
				return failure.Usage.Errorf("--name %q: several files need a {} in it, for their number", name)
			case name == "" || !filepath.IsLocal(name):
				return failure.Usage.Errorf("--name %q: must be a name inside the directory", name)
			}
			return failure.Local.Wrap(load.WriteFiles(dirs[0], name, count, int64(size)))
		},
	}
	cmd.Flags().Var(&size, "size", "size of each file")
	cmd.Flags().IntVar(&count, "count", 1, "write `N` files")
	cmd.Flags().StringVar(&name, "name", "f{}", "`NAME` of each file, in which \"{}\" stands for its number")
	return cmd
}
