package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/haul-project/haul/cmd/haul/internal/boot"
	"github.com/haul-project/haul/cmd/haul/internal/boot/bootload"
	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/internal/ownfile"
)

const benchBootHelp = `Act as many machines that boot at once, and report when they are up.

Each machine fetches the loader by TFTP and then the image by HTTP, as firmware does: in
a window of 4 blocks (edk2) or in lock-step (ipxe), with that firmware's timers; and the
image over one connection, continued by a range after a loss. Several --loader or --image
stand for one address with several servers behind it: a machine gets one of them, and
another one when it asks again. All must get the same bytes. Nothing is written to disk.
With --simulate nothing is sent either: haul computes it from measured figures.

All machines have the address of this host: more than 1000 requests a second to haul need
"haul serve --rate -1", and many connections --http-conns-per-source.

The exit code is 0 if all machines came up, 5 if no server answers, 130 if interrupted
(what was done until then is printed), and otherwise 1.`

const benchBootExamples = `  haul bench boot --machines 1000 --loader tftp://192.0.2.1/ipxe.efi --image http://192.0.2.1/root.img
  haul bench boot -n 500 --lost 2 --image http://192.0.2.1/root.img --image http://192.0.2.2/root.img --svg up.svg
  haul bench boot --simulate --machines 10000 --arrival linear:5m --replicas 3 --link 10 --image-size 60MB`

// errBenchBoot reports that some machines did not come up. The report contains the reasons.
var errBenchBoot = errors.New("some machines did not come up")

// bootFlags are the flags of "haul bench boot".
type bootFlags struct {
	config          bootload.Config
	site            boot.Site // the site to simulate, if simulate is set
	loaders, images []string
	arrival         string
	firmware        string
	lost            float64
	asJSON          bool
	svg             string

	simulate                bool
	link, store, ofMachine  float64 // rates in Gb/s of the links of a replica, of the store and of a machine
	loaderSize, imageSize   console.ByteSize
	noCache                 bool
	forServers, forSimulate []string // flags that apply only to real servers, or only to a simulation
}

func newBenchBoot() *cobra.Command {
	b := bootFlags{site: boot.DefaultSite()}
	cmd := &cobra.Command{
		Use:         "boot",
		Short:       "Boot many machines at once",
		Long:        benchBootHelp,
		Example:     benchBootExamples,
		Args:        commandline.Args(cobra.NoArgs),
		Annotations: commandline.More("machines arrival loader image firmware lost svg json simulate replicas link image-size", "json", "sizes"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.resolve(cmd); err != nil {
				return err
			}
			run := b.boot
			if b.simulate {
				run = b.compute
			}
			if err := run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()); err != nil {
				return fmt.Errorf("bench boot: %w", err)
			}
			return nil
		},
	}
	b.add(cmd.Flags())
	return cmd
}

// add adds the flags.
func (b *bootFlags) add(flags *pflag.FlagSet) {
	flags.SortFlags = false
	p := &b.config.Plan
	flags.IntVarP(&b.config.Machines, "machines", "n", 100, "boot `N` machines, 1 to 10000, with --simulate to 1000000")
	flags.StringVar(&b.arrival, "arrival", "all", "switch them on by this `CURVE`: all, linear:TIME or poisson:RATE, in machines a second")
	flags.StringVar(&b.firmware, "firmware", boot.EDK2.Name, "fetch the loader as `NAME` does: edk2 or ipxe")
	flags.Float64Var(&b.lost, "lost", 0, "let `PERCENT` of the machines lose power while they boot, and begin again")
	flags.DurationVar(&p.Away, "away", boot.DefaultAway, "how long those are off (`TIME`)")
	flags.IntVar(&p.Tries, "tries", boot.DefaultTries, "leave a machine alone that has failed `N` times in a row")
	flags.DurationVar(&p.Stall, "stall", boot.DefaultStall, "break an image off if nothing of it comes for this `TIME`")
	flags.BoolVar(&p.NoResume, "no-resume", false, "fetch a lost image from its begin, as iPXE's imgfetch does")
	flags.Uint64Var(&p.Seed, "seed", 1, "`NUMBER` that selects arrivals, servers and losses")
	flags.BoolVar(&b.asJSON, "json", false, "print one JSON object")
	flags.StringVar(&b.svg, "svg", "", "write the machines up over time to `FILE`, as a picture")

	servers := pflag.NewFlagSet("", 0)
	servers.StringArrayVar(&b.loaders, "loader", nil, "fetch the loader from this tftp `URL`, or one of several; without this flag, no loader is fetched")
	servers.StringArrayVar(&b.images, "image", nil, "fetch the image from this http or https `URL`, or one of several; without this flag, no image is fetched")

	s := &b.site
	b.loaderSize, b.imageSize = console.ByteSize(s.Loader), console.ByteSize(s.Image)
	simulate := pflag.NewFlagSet("", 0)
	simulate.IntVar(&s.Replicas, "replicas", s.Replicas, "`N` replicas of haul serve the machines")
	simulate.Float64Var(&b.link, "link", s.Link/boot.Gigabit, "link of each replica, in Gb/s (`RATE`)")
	simulate.Float64Var(&s.Cores, "cores", s.Cores, "`N` cores of each replica")
	simulate.Var(&b.loaderSize, "loader-size", "size of the loader; 0: no loader")
	simulate.Var(&b.imageSize, "image-size", "size of the image; 0: no image")
	simulate.Float64Var(&b.ofMachine, "machine-link", s.MachineLink/boot.Gigabit, "link of each machine, in Gb/s (`RATE`)")
	simulate.DurationVar(&s.RoundTrip, "round-trip", s.RoundTrip, "round trip `TIME` between a machine and a replica")
	simulate.Float64Var(&b.store, "store-link", s.Store/boot.Gigabit, "link of the store with the files, in Gb/s (`RATE`)")
	simulate.BoolVar(&b.noCache, "no-cache", false, "replicas fetch from the store for each machine")
	simulate.DurationVar(&s.LostAt, "replica-lost", 0, "lose one replica after this `TIME`")
	simulate.DurationVar(&s.BackAt, "replica-back", 0, "have it back after this `TIME`, with an empty cache")
	simulate.DurationVar(&s.Withdraw, "withdraw", s.Withdraw, "for this `TIME` after the loss, machines still ask that replica")

	flags.AddFlagSet(servers)
	flags.BoolVar(&b.simulate, "simulate", false, "send nothing, and compute it from measured figures")
	flags.AddFlagSet(simulate)
	servers.VisitAll(func(f *pflag.Flag) { b.forServers = append(b.forServers, f.Name) })
	simulate.VisitAll(func(f *pflag.Flag) { b.forSimulate = append(b.forSimulate, f.Name) })
}

// resolve checks the flags, and turns them into a configuration.
func (b *bootFlags) resolve(cmd *cobra.Command) error {
	wrong, why := b.forSimulate, "is for --simulate"
	if b.simulate {
		wrong, why = b.forServers, "is for real servers, and --simulate has none"
	}
	for _, name := range wrong {
		if cmd.Flags().Changed(name) {
			return failure.Usage.Errorf("--%s %s", name, why)
		}
	}
	var err error
	if b.config.Arrival, err = boot.ParseArrival(b.arrival); err != nil {
		return failure.Usage.Errorf("--arrival %w", err)
	}
	i := slices.IndexFunc(boot.Firmwares(), func(f boot.Firmware) bool { return f.Name == b.firmware })
	if i < 0 {
		return failure.Usage.Errorf("--firmware %q: must be edk2 or ipxe", b.firmware)
	}
	b.config.Plan.Firmware = boot.Firmwares()[i]
	b.config.Plan.Lost = b.lost / 100
	if b.svg != "" {
		// Check this before the run, not after it.
		if fi, err := os.Stat(filepath.Dir(b.svg)); err != nil || !fi.IsDir() {
			return failure.Usage.Errorf("--svg %s: there is no such directory", console.Visible(b.svg))
		}
	}
	if b.simulate {
		return b.resolveSite()
	}
	for _, u := range b.loaders {
		t, err := remote.ParseTFTP(u)
		if err != nil {
			return err
		}
		b.config.Loaders = append(b.config.Loaders, t)
	}
	for _, s := range b.images {
		u, err := url.Parse(s)
		if err != nil { // do not wrap err, which may quote a password in the URL
			return failure.Usage.Errorf("--image: not a URL of the form http://host/name")
		}
		b.config.Images = append(b.config.Images, u)
	}
	if err := b.config.Check(); err != nil {
		return failure.Usage.Errorf("--%w", err) // the error begins with the flag's name
	}
	return nil
}

// resolveSite checks the flags that describe a simulated site, and completes the site.
func (b *bootFlags) resolveSite() error {
	s := &b.site
	s.Machines, s.Arrival, s.Plan = b.config.Machines, b.config.Arrival, b.config.Plan
	s.Link, s.Store, s.MachineLink = b.link*boot.Gigabit, b.store*boot.Gigabit, b.ofMachine*boot.Gigabit
	s.Loader, s.Image, s.Cache = int64(b.loaderSize), int64(b.imageSize), !b.noCache
	if err := s.Check(); err != nil {
		return failure.Usage.Errorf("--%w", err)
	}
	return nil
}

// boot boots the machines and prints the results, even after an error.
func (b *bootFlags) boot(ctx context.Context, stdout, stderr io.Writer) error {
	c := &b.config
	if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		c.Progress = func(p bootload.Progress) { fmt.Fprint(f, "\r"+p.String()+"\x1b[K") }
	}
	report, err := c.Run(ctx)
	if c.Progress != nil {
		fmt.Fprint(stderr, "\r\x1b[K")
	}
	// If no server answered, there is nothing to report, and the error alone is enough.
	if report.Duration > 0 && (err == nil || report.Bytes() > 0 || errors.Is(err, context.Canceled)) {
		write := report.WriteText
		if b.asJSON {
			write = func(out io.Writer) error { return report.WriteJSON(out, c) }
		}
		if failed := errors.Join(write(stdout), b.picture(report.WriteSVG)); failed != nil {
			return failure.Local.Wrap(failed)
		}
	}
	if err == nil && report.Up() < c.Machines {
		return errBenchBoot
	}
	return err
}

// picture writes a picture of the boot to the file that --svg names. Without --svg it does nothing.
func (b *bootFlags) picture(write func(io.Writer) error) error {
	if b.svg == "" {
		return nil
	}
	f, err := ownfile.Create(b.svg)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close()
		return fmt.Errorf("write %s: %w", b.svg, err)
	}
	return f.Close()
}

// compute simulates how the machines of a site come up.
func (b *bootFlags) compute(_ context.Context, stdout, _ io.Writer) error {
	s := b.site
	r, err := boot.Simulate(s)
	if err != nil {
		return err
	}
	write := bootload.WriteSiteText
	if b.asJSON {
		write = bootload.WriteSiteJSON
	}
	drawn := b.picture(func(out io.Writer) error {
		end := s.Bound().Arrival
		if n := len(r.Up); n > 0 {
			end = max(end, r.Up[n-1])
		}
		return bootload.WriteSVG(out, s.Arrival.Times(s.Machines, s.Plan.Seed), r.Up, s.Machines, end)
	})
	if failed := errors.Join(write(stdout, &s, &r), drawn); failed != nil {
		return failure.Local.Wrap(failed)
	}
	if len(r.Up) < s.Machines {
		return errBenchBoot
	}
	return nil
}
