package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/suite"
)

// Time that short runs have, all told: of a quick one people were promised five
// minutes, and a smoke run must not hold up a build.
const (
	quickTime = 5*time.Minute - 10*time.Second
	smokeTime = 2 * time.Minute
)

var errQuickTime = fmt.Errorf("%v are over", quickTime)

const runHelp = `Measure haul and its peers in turn. Each contender gets each scenario once a
round, and each round in another order. What is absent, and what fails, is in
the results too.

Results are appended to --out line by line, so an interrupted run keeps what it
has. "bench report" makes tables and plots of them.

Other work on this machine disturbs: close what you can, and look at the spread.`

// runFlags are what "bench run" is told.
type runFlags struct {
	suite              suite.Suite
	quick, smoke, list bool
	only, out, bin     string
	scenarios          []suite.Scenario
	peers              []string
	stdout, stderr     io.Writer
	closeOut           func() error
}

func runCommand() *cobra.Command {
	f := runFlags{bin: peer.BinDir()}
	cmd := &cobra.Command{
		Use:     "run",
		Short:   "Measure, and append the results to a file",
		Long:    runHelp,
		Example: "  bench run --quick --out quick.jsonl\n  bench run --only '^(many|window)' --peers haul,dnsmasq,floor-64 --out some.jsonl",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.stdout, f.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return f.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.quick, "quick", false, "a few scenarios and peers, within five minutes")
	flags.BoolVar(&f.smoke, "smoke", false, "one small round of each kind with haul alone; fails unless everything works")
	flags.BoolVar(&f.list, "list", false, "list the scenarios, and measure nothing")
	flags.StringVar(&f.only, "only", "", "scenarios whose name this regular `expression` matches")
	flags.IntVar(&f.suite.Rounds, "rounds", 0, "how often each contender gets each scenario; 0 means 5, or 1 with --smoke")
	flags.StringVar(&f.out, "out", "", "append the results to this `file`; without it they go to bench-TIME.jsonl, and with --smoke nowhere")
	flags.StringVar(&f.suite.Haul, "haul", "", "`binary` of haul to measure, which is the load generator too; without it the one in --bin")
	flags.StringVar(&f.suite.Before, "before", "", "another `binary` of haul to compare with")
	flags.StringSliceVar(&f.peers, "peers", nil, "names of the contenders, as \"bench peers\" lists them; without it all")
	flags.StringVar(&f.bin, "bin", f.bin, "`directory` of haul, and of the peers that scripts/install-bench-peers got")
	flags.StringVar(&f.suite.Dir, "dir", "", "`directory` for the files that are served; without it the one for temporary files")
	cmd.MarkFlagsMutuallyExclusive("quick", "smoke")
	return cmd
}

func (f *runFlags) run(ctx context.Context) error {
	if err := f.choose(); err != nil {
		return err
	}
	if f.list {
		for _, s := range f.scenarios {
			fmt.Fprintf(f.stdout, "%-28s %s\n", s.Name, s.Title)
		}
		return nil
	}
	if err := f.prepare(); err != nil {
		return err
	}
	ctx, cancel := f.limit(ctx)
	defer cancel()
	err := f.suite.Run(ctx, f.scenarios)
	if errors.Is(err, errQuickTime) {
		fmt.Fprintf(f.stderr, "bench: %v, the rest was left out; this machine is slower than most\n", errQuickTime)
		err = nil
	}
	if closed := f.closeOut(); err == nil {
		err = closed
	}
	if f.out != "" {
		fmt.Fprintf(f.stderr, "bench: the results are in %s; \"bench report %s\" shows them\n", f.out, f.out)
	}
	return err
}

// limit bounds a short run.
func (f *runFlags) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	switch {
	case f.quick:
		return context.WithTimeoutCause(ctx, quickTime, errQuickTime)
	case f.smoke:
		return context.WithTimeout(ctx, smokeTime)
	}
	return context.WithCancel(ctx)
}

// choose selects the scenarios.
func (f *runFlags) choose() error {
	f.scenarios = suite.Full()
	switch {
	case f.quick:
		f.scenarios = suite.Quick()
	case f.smoke:
		f.scenarios = suite.Smoke()
	}
	only, err := regexp.Compile(f.only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	f.scenarios = slices.DeleteFunc(f.scenarios, func(s suite.Scenario) bool { return !only.MatchString(s.Name) })
	if len(f.scenarios) == 0 {
		return fmt.Errorf("--only %s matches none of the scenarios that --list lists", f.only)
	}
	return nil
}

// prepare completes the suite by what the flags leave open.
func (f *runFlags) prepare() error {
	s := &f.suite
	s.Only, s.Peers, s.Progress = f.peers, f.bin, f.stderr
	if s.Haul == "" {
		s.Haul = filepath.Join(f.bin, "haul")
	}
	var err error
	if s.Haul, err = filepath.Abs(s.Haul); err != nil {
		return fmt.Errorf("--haul: %w", err)
	}
	if f.smoke {
		s.Strict = true
		if s.Rounds == 0 {
			s.Rounds = 1
		}
	}
	f.closeOut = func() error { return nil }
	if f.out == "" && !f.smoke {
		f.out = time.Now().UTC().Format("bench-20060102-150405.jsonl")
	}
	if f.out == "" {
		return nil
	}
	file, err := os.OpenFile(f.out, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	s.Out, f.closeOut = file, file.Close
	return nil
}
