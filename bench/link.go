package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/bench/link"
	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/suite"
)

// linkOptions holds the flags of "bench link".
type linkOptions struct {
	list, check, netem bool
	side, server       string
	wait               time.Duration
	delay              time.Duration
	rate, queue        string
	loss, double, late float64
	seed               uint64
}

func linkCommand() *cobra.Command {
	var o linkOptions
	c := &cobra.Command{
		Use:   "link PROFILE [flags] -- PROGRAM [ARGUMENT...]",
		Short: "Run a program on one side of an emulated link",
		Long: `Run a program on one side of an emulated link, and if asked for another on
the other side. Both find the addresses of their own and of the other side in
HAUL_LINK_LOCAL and HAUL_LINK_PEER. It needs root. What the link did is printed
to standard error at the end, after Ctrl-C too, which is for the program: the link
is there until it ends.

The exit code is the program's, or 128 and the number of the signal that ended
it. It is 1 if there is no link, or nothing could be run on it.`,
		Example: `  bench link vpn --server 'haul serve /srv/tftp' -- sh -c 'haul get tftp://$HAUL_LINK_PEER/kernel'
  bench link lan1g+loss -- bash
  bench link --check lan1g vpn`,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case o.list:
				return listLinks(c.OutOrStdout())
			case o.check:
				return checkLinks(c, &o, args)
			case len(args) < 2:
				return errors.New("link: name a profile and a program, or ask for --list or --check")
			}
			return runOnLink(c, &o, args[0], args[1:])
		},
	}
	f := c.Flags()
	f.SetInterspersed(true)
	f.BoolVar(&o.list, "list", false, "list the profiles")
	f.BoolVar(&o.check, "check", false, "measure how accurate the profiles named (or all) are on this machine")
	f.BoolVar(&o.netem, "netem", false, "let the kernel's netem emulate the link, where it is there")
	f.StringVar(&o.side, "side", "b", "side of the program: a or b; --server has the other")
	f.StringVar(&o.server, "server", "", "command line to run on the other side meanwhile")
	f.DurationVar(&o.wait, "wait", 300*time.Millisecond, "time for --server to get ready")
	f.DurationVar(&o.delay, "delay", 0, "delay each way, instead of the profile's")
	f.StringVar(&o.rate, "rate", "", "bit/s each way, such as 100m; 0 is unlimited")
	f.StringVar(&o.queue, "queue", "", "bytes that may wait for the rate each way, such as 64k")
	f.Float64Var(&o.loss, "loss", 0, "fraction of packets lost each way")
	f.Float64Var(&o.double, "dup", 0, "fraction of packets duplicated each way")
	f.Float64Var(&o.late, "reorder", 0, "fraction of packets overtaken by others each way")
	f.Uint64Var(&o.seed, "seed", 1, "what decides which packets")
	c.AddCommand(cleanCommand())
	return c
}

func cleanCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "clean",
		Short: "Remove what killed runs have left",
		Long: `Remove what runs of bench have left that were killed: links, control groups,
the programs in either, and files in the directory for temporary files. Everything that
belongs to a run that continues, or to somebody else, stays. The next run does the same.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return suite.Clean("") },
	}
}

func listLinks(to io.Writer) error {
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PROFILE\tBLOCK+ACK\tDELAY\tRATE\tBOUND AT WINDOWSIZE 1\t128\t")
	for _, p := range link.Profiles() {
		w := p.Ways[link.A]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Name, p.Cycle(1432), w.Delay, bitsPerSecond(w.Rate),
			megabytes(p.Bound(1432, 1)), megabytes(p.Bound(1432, 128)), p.Note)
	}
	fmt.Fprintln(t, "Each also with +loss: 1 % more lost each way. Blocks have 1,432 bytes.")
	return t.Flush()
}

func bitsPerSecond(rate int64) string {
	if rate == 0 {
		return "unlimited"
	}
	return fmt.Sprintf("%g Mb/s", float64(rate)/1e6)
}

func megabytes(rate float64) string { return fmt.Sprintf("%.3g MB/s", rate/1e6) }

// profile returns the named profile with the changes that the flags make.
func (o *linkOptions) profile(c *cobra.Command, name string) (link.Profile, error) {
	p, err := link.Lookup(name)
	if err != nil {
		return p, err
	}
	changed := c.Flags().Changed
	var rate, queue int64
	if changed("rate") {
		if rate, err = parseQuantity(o.rate, 1000); err != nil {
			return p, fmt.Errorf("--rate: %w", err)
		}
	}
	if changed("queue") {
		if queue, err = parseQuantity(o.queue, 1024); err != nil {
			return p, fmt.Errorf("--queue: %w", err)
		}
	}
	if changed("seed") {
		p.Seed = o.seed
	}
	for i := range p.Ways {
		w := &p.Ways[i]
		set(changed("rate"), &w.Rate, rate)
		set(changed("queue"), &w.Queue, int(queue))
		set(changed("delay"), &w.Delay, o.delay)
		set(changed("loss"), &w.Loss, o.loss)
		set(changed("dup"), &w.Duplicate, o.double)
		set(changed("reorder"), &w.Reorder, o.late)
	}
	return p, p.Check()
}

func set[T any](wanted bool, field *T, value T) {
	if wanted {
		*field = value
	}
}

// parseQuantity parses a number with an optional suffix k, m or g, which multiplies it by step,
// step² or step³.
func parseQuantity(s string, step float64) (int64, error) {
	number, factor := strings.ToLower(s), 1.0
	for i, unit := range []string{"k", "m", "g"} {
		if rest, ok := strings.CutSuffix(number, unit); ok {
			number = rest
			for range i + 1 {
				factor *= step
			}
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n >= 0 && n*factor < 1e15) {
		return 0, fmt.Errorf("%q is no number with k, m or g behind it", s)
	}
	return int64(n * factor), nil
}

func (o *linkOptions) up(ctx context.Context, p link.Profile) (*link.Link, error) {
	if o.netem {
		return link.UpNetem(ctx, p)
	}
	return link.Up(ctx, p)
}

func runOnLink(c *cobra.Command, o *linkOptions, name string, program []string) (err error) {
	side := link.B
	switch o.side {
	case "a":
		side = link.A
	case "b":
	default:
		return fmt.Errorf("--side %q: it is a or b", o.side)
	}
	p, err := o.profile(c, name)
	if err != nil {
		return err
	}
	// Until the program runs, an interrupt ends everything. From then on only the program, which
	// receives the interrupt from the terminal too, decides how to react. The link lasts until the
	// program has ended and the figures are printed.
	life, end := context.WithCancel(context.WithoutCancel(c.Context()))
	defer end()
	uninterrupted := context.AfterFunc(c.Context(), end)
	l, err := o.up(life, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if o.server != "" {
		server := connected(l.Command(life, side.Other(), "sh", "-c", o.server))
		server.Stdin = nil
		if err := server.Start(); err != nil {
			return fmt.Errorf("run --server: %w", err)
		}
		// Closing the link ends the server, and everything that the server started.
		defer func() { _ = server.Wait() }()
		defer func() { _ = l.Close() }()
		pause(life, o.wait)
	}
	if !uninterrupted() {
		return fmt.Errorf("%s was not run: %w", program[0], context.Cause(c.Context()))
	}
	failed := runProgram(program[0], connected(l.Command(life, side, program[0], program[1:]...)))
	if _, ran := errors.AsType[programError](failed); failed != nil && !ran {
		return failed
	}
	if !o.netem {
		s, err := l.Stats()
		if err != nil {
			return errors.Join(failed, err)
		}
		printStats(c.ErrOrStderr(), &s)
	}
	return failed
}

// pause waits for the duration d. It returns early if ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// A programError is the error of a program that bench ran for its user. Bench exits with the
// program's exit code.
type programError struct {
	error
	code int
}

func (e programError) Unwrap() error { return e.error }

// signalBase is added to the number of a signal that ended a program, as in shells.
const signalBase = 128

// runProgram runs a command to its end, even if bench's own context ends earlier. It forwards
// SIGTERM to the command: unlike the terminal's signals, only bench receives SIGTERM.
func runProgram(name string, cmd *exec.Cmd) error {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return err // the error names the program
	}
	defer close(done)
	go func() {
		for {
			select {
			case s := <-signals:
				_ = cmd.Process.Signal(s) // an error means that the program has just ended
			case <-done:
				return
			}
		}
	}()
	err := cmd.Wait()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return err
	}
	code := exit.ExitCode()
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = signalBase + int(status.Signal())
	}
	return programError{fmt.Errorf("%s: %w", name, err), code}
}

// connected connects the standard input, output and error of a command to those of bench.
func connected(cmd *exec.Cmd) *exec.Cmd {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd
}

func printStats(to io.Writer, s *link.Stats) {
	for i, w := range s.Ways {
		side := link.Side(i)
		fmt.Fprintf(to, "link: %s to %s: %d packets, %d bytes, %d delivered, %d lost, %d duplicated, %d reordered, %d dropped from the queue (at most %d bytes waited)\n",
			side, side.Other(), w.Packets, w.Bytes, w.Delivered, w.Lost, w.Duplicated, w.Reordered, w.QueueDrops, w.MaxQueue)
	}
	fmt.Fprintf(to, "link: the emulator took %s of processor time in %s (%.1f %%); packets were late by %s (median), %s (p99), %s at the most\n",
		s.CPU.Round(time.Millisecond), s.Wall.Round(time.Millisecond), s.CPUShare()*100, s.LateMedian, s.LateP99, s.LateMax)
	if n := s.Failures(); n > 0 {
		fmt.Fprintf(to, "link: WARNING: %d packets were dropped because the emulator could not follow; this is no measurement of the profile\n", n)
	}
}

func checkLinks(c *cobra.Command, o *linkOptions, names []string) error {
	if len(names) == 0 {
		for _, p := range link.Profiles() {
			names = append(names, p.Name)
		}
	}
	for _, name := range names {
		p, err := o.profile(c, name)
		if err != nil {
			return err
		}
		if err := checkLink(c, o, p); err != nil {
			return err
		}
	}
	return nil
}

func checkLink(c *cobra.Command, o *linkOptions, p link.Profile) error {
	if o.netem {
		return errors.New("link --check measures the suite's own emulator; leave --netem away")
	}
	l, err := o.up(c.Context(), p)
	if err != nil {
		return err
	}
	a, err := l.Measure(c.Context(), suite.LinkTools(l, peer.BinDir()))
	if err := errors.Join(err, l.Close()); err != nil {
		return err
	}
	printAccuracy(c.OutOrStdout(), &a)
	return nil
}

func printAccuracy(to io.Writer, a *link.Accuracy) {
	verdict := "within 5 %"
	if off := a.Off(); off > 0.05 || off < -0.05 {
		verdict = "NOT within 5 %"
	}
	fmt.Fprintf(to, "%s: block and ACK should take %s\n", a.Profile, a.Want)
	fmt.Fprintf(to, "  probe   median %s (%+.1f %%: %s), min %s, p90 %s, p99 %s, max %s; %d of %d lost\n",
		a.Ping.Median, a.Off()*100, verdict, a.Ping.Min, a.Ping.P90, a.Ping.P99, a.Ping.Max, a.Ping.Lost, a.Ping.Count)
	fmt.Fprintf(to, "          %s each way taken off for the emulator itself; it used %.1f %% of a processor\n", a.Lead, a.Share*100)
	fmt.Fprintf(to, "  ping    %s\n", toolResult(a.Echo, "ms on average"))
	for _, b := range a.Bulk {
		fmt.Fprintf(to, "  stream  %.1f of %.1f Mb/s of 1500-byte packets, %d in a call; the emulator used %.1f %% of a processor, and failed %d packets\n",
			b.Got, b.Want, b.Segments, b.Share*100, b.Failures)
	}
	fmt.Fprintf(to, "  iperf3  %s\n", toolResult(a.TCP, "Mb/s by TCP"))
}

func toolResult(t link.Tool, unit string) string {
	if t.Absent != "" {
		return "absent: " + t.Absent
	}
	return fmt.Sprintf("%.3f %s", t.Value, unit)
}
