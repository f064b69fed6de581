package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/suite"
)

// These limit the total time of short runs. The documentation promises five minutes for a quick
// run, and a smoke run must not delay a build.
const (
	quickTime = 5*time.Minute - 10*time.Second
	smokeTime = 2 * time.Minute
)

var errQuickTime = fmt.Errorf("%v are over", quickTime)

const runHelp = `Measure haul and its peers in turn. Each contender gets each scenario once a
round, and each round in another order. The results also have what is absent,
and what fails.

Results are appended to a file line by line, so an interrupted run keeps what it
has. "bench report" makes tables and plots of them.

--resume makes a long run in parts: give it the same file, and the same other
flags, as often as it takes. Measurements that the latest run in the file has are not
made again, as long as the commit, the machine, haul and the contender are the
same (the programs to the byte); only a round that was cut off is made again, for
all who take part in it. If something has changed, a new run begins, and
"bench run" says what it was. More --rounds are added to those that are there.
Quick runs want a file of their own: their scenarios have the names of larger ones.

Other work on this machine disturbs: close what you can, and look at the spread.`

const runExamples = `  bench run --quick --out quick.jsonl
  bench run --resume full.jsonl                 everything; again after Ctrl-C, it resumes
  bench run --only '^(many|window)' --peers haul,dnsmasq,floor-64 --out some.jsonl`

// runFlags holds the flags of "bench run".
type runFlags struct {
	suite              suite.Suite
	quick, smoke, list bool
	only, bin          string
	out                results
	scenarios          []suite.Scenario
	peers              []string
	stdout, stderr     io.Writer
}

func runCommand() *cobra.Command {
	f := runFlags{bin: peer.BinDir()}
	cmd := &cobra.Command{
		Use:     "run",
		Short:   "Measure, and append the results to a file",
		Long:    runHelp,
		Example: runExamples,
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
	flags.StringVar(&f.out.path, "out", "", "append the results to this `file`, as a new run; without it they go to bench-TIME.jsonl, and with --smoke nowhere")
	flags.StringVar(&f.out.resume, "resume", "", "resume the latest run in this `file`, and leave out what it has; a new file begins one")
	flags.StringVar(&f.suite.Haul, "haul", "", "`binary` of haul to measure, which is the load generator too; without it the one in --bin")
	flags.StringVar(&f.suite.Before, "before", "", "another `binary` of haul to compare with")
	flags.StringSliceVar(&f.peers, "peers", nil, "names of the contenders, as \"bench peers\" lists them; without it all")
	flags.StringVar(&f.bin, "bin", f.bin, "`directory` of haul, and of the peers that scripts/install-bench-peers got")
	flags.StringVar(&f.suite.Dir, "dir", "", "`directory` for the files that are served; without it the one for temporary files")
	cmd.MarkFlagsMutuallyExclusive("quick", "smoke")
	cmd.MarkFlagsMutuallyExclusive("out", "resume")
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
	plan, err := f.prepare()
	if err != nil {
		return err
	}
	f.announce(plan)
	if plan.Measurements == 0 {
		return nil
	}
	// Open the file only now, so that no file is left behind if nothing can be measured.
	if f.suite.Out, err = f.out.open(); err != nil {
		return err
	}
	ctx, cancel := f.limit(ctx)
	defer cancel()
	err = f.suite.Run(ctx, plan)
	early := ctx.Err() != nil
	if errors.Is(err, errQuickTime) {
		f.say("%v, the rest was left out; this machine is slower than most", errQuickTime)
		err = nil
	}
	kept, closed := f.out.close()
	if err == nil {
		err = closed
	}
	switch {
	case f.out.path == "":
	case !kept:
		f.say("nothing was measured, so there is no %s", f.out.path)
	default:
		f.say("the results are in %s; \"bench report %s\" shows them", f.out.path, f.out.path)
		if early {
			f.say("with --resume %s in place of any --out, the same command measures the rest", f.out.path)
		}
	}
	return err
}

func (f *runFlags) say(format string, args ...any) {
	fmt.Fprintf(f.stderr, "bench: "+format+"\n", args...)
}

// announce prints what the run will do, and how long that may take.
func (f *runFlags) announce(p *suite.Plan) {
	switch {
	case p.NewRun != "":
		f.say("nothing in %s counts: %s; a new run begins", f.out.path, p.NewRun)
	case p.Measurements == 0:
		f.say("%s has all %d measurements of these scenarios, nothing is left to measure", f.out.path, p.Known)
		return
	case p.Known > 0:
		f.say("%s has %d of %d measurements, the run continues", f.out.path, p.Known, p.Known+p.Measurements)
	}
	most := ""
	if f.quick {
		most = fmt.Sprintf(", and %s at the most", roughly(quickTime))
	}
	f.say("%s, %s, about %s%s", count(p.Scenarios, "scenario"), count(p.Measurements, "measurement"), roughly(p.Time), most)
	if f.out.path != "" {
		f.say("results go to %s one by one; Ctrl-C ends the run early and keeps them", f.out.path)
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// roughly formats an estimated duration, in seconds, minutes, or hours and minutes.
func roughly(d time.Duration) string {
	switch minutes := int(d.Round(time.Minute).Minutes()); {
	case d < 90*time.Second:
		return fmt.Sprintf("%d s", int(d.Round(time.Second).Seconds()))
	case minutes < 90:
		return fmt.Sprintf("%d min", minutes)
	default:
		return fmt.Sprintf("%d h %d min", minutes/60, minutes%60)
	}
}

// limit returns a context with the time limit of a quick run or a smoke run.
func (f *runFlags) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	switch {
	case f.quick:
		return context.WithTimeoutCause(ctx, quickTime, errQuickTime)
	case f.smoke:
		return context.WithTimeout(ctx, smokeTime)
	}
	return context.WithCancel(ctx)
}

// choose selects the scenarios according to the flags.
func (f *runFlags) choose() error {
	if f.suite.Rounds < 0 {
		return fmt.Errorf("--rounds %d: must be 0 or more", f.suite.Rounds)
	}
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

// prepare sets defaults for flags that are not set, and plans the run.
func (f *runFlags) prepare() (*suite.Plan, error) {
	s := &f.suite
	s.Only, s.Peers, s.Progress = f.peers, f.bin, f.stderr
	if s.Haul == "" {
		s.Haul = filepath.Join(f.bin, "haul")
	}
	if f.smoke {
		s.Strict = true
		if s.Rounds == 0 {
			s.Rounds = 1
		}
	}
	var err error
	if s.Done, err = f.out.read(); err != nil {
		return nil, err
	}
	if f.out.path == "" && !f.smoke {
		f.out.path = time.Now().UTC().Format("bench-20060102-150405.jsonl")
	}
	plan, err := s.Plan(f.scenarios)
	if err != nil {
		return nil, err
	}
	s.Haul, err = filepath.Abs(s.Haul) // haul runs in another directory; messages above show its path as given
	return plan, err
}
