package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/bench/guard"
	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/suite"
	"github.com/haul-project/haul/bench/suite/record"
)

// guardTime is the time limit of "bench guard", including further rounds for suspicious figures.
const guardTime = 9 * time.Minute

var errGuardTime = fmt.Errorf("%v are over", guardTime)

const guardHelp = `Compare this build of haul with another one, in turns, over the loads that
matter: throughput, CPU time of the server, and over SFTP of the client.

Every load gets 5 rounds. Where one build had the better figure in each of them,
and the median differs by 3 % or more, the load gets 7 more rounds. A figure that is
on the same side in all 12 is named, and if it is worse, the exit code is 1. So it is
if one was worse in each round, but the time ended before all 12. Other work on the
machine disturbs both builds: it hides small changes, but rarely invents one.

"make bench-guard" builds the other one and runs this.`

// guardFlags holds the flags of "bench guard".
type guardFlags struct {
	suite          suite.Suite
	only, bin      string
	out            results
	stdout, stderr io.Writer
}

func guardCommand() *cobra.Command {
	f := guardFlags{bin: peer.BinDir()}
	cmd := &cobra.Command{
		Use:     "guard",
		Short:   "Compare two builds of haul, and fail if one is slower",
		Long:    guardHelp,
		Example: "  bench guard --before /tmp/base/bin/haul\n  bench guard --before /tmp/base/bin/haul --only '^(many|window)'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.stdout, f.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return f.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.suite.Before, "before", "", "`binary` of haul to compare with; haulsftp and haultcp are beside it")
	flags.StringVar(&f.only, "only", "", "loads whose name this regular `expression` matches")
	flags.StringVar(&f.out.path, "out", "", "append the results to this `file`, as \"bench run\" does")
	flags.StringVar(&f.bin, "bin", f.bin, "`directory` of haul, haulsftp, haultcp and tcpload")
	flags.StringVar(&f.suite.Dir, "dir", "", "`directory` for the files that are served; without it the one for temporary files")
	_ = cmd.MarkFlagRequired("before") // this fails only if the flag is not defined, but it is defined above
	return cmd
}

func (f *guardFlags) run(ctx context.Context) error {
	only, err := regexp.Compile(f.only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	loads := slices.DeleteFunc(suite.Guard(), func(s suite.Scenario) bool { return !only.MatchString(s.Name) })
	if len(loads) == 0 {
		return fmt.Errorf("--only %s matches none of the loads", f.only)
	}
	s := &f.suite
	s.Peers, s.Progress, s.Only = f.bin, f.stderr, suite.GuardPeers()
	if s.Haul, err = filepath.Abs(filepath.Join(f.bin, "haul")); err != nil {
		return err
	}
	file, err := f.out.open()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, guardTime, errGuardTime)
	defer cancel()
	lines, err := f.measure(ctx, loads, file)
	if _, closed := f.out.close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return f.judge(guard.Compare(loads, lines), lines)
}

// measure runs the rounds of each load, and more rounds of the loads with suspicious figures. When
// the time is over, it returns the lines so far.
func (f *guardFlags) measure(ctx context.Context, loads []suite.Scenario, file io.Writer) (lines []record.Line, err error) {
	for _, rounds := range []int{guard.Rounds, guard.MoreRounds} {
		s := f.suite
		s.Rounds, s.Done = rounds, lines
		var out bytes.Buffer
		s.Out = &out
		if file != nil {
			s.Out = io.MultiWriter(&out, file)
		}
		plan, err := s.Plan(loads)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(f.stderr, "bench: %s, %s, about %s\n", count(plan.Scenarios, "load"), count(plan.Measurements, "measurement"), roughly(plan.Time))
		err = s.Run(ctx, plan)
		for d := json.NewDecoder(&out); d.More(); {
			var l record.Line
			if err := d.Decode(&l); err != nil {
				return nil, fmt.Errorf("read the results: %w", err)
			}
			lines = append(lines, l)
		}
		if errors.Is(err, errGuardTime) {
			fmt.Fprintf(f.stderr, "bench: %v, some rounds are missing\n", errGuardTime)
			break
		}
		if err != nil {
			return nil, err
		}
		suspects := guard.Suspects(guard.Compare(loads, lines))
		if loads = slices.DeleteFunc(slices.Clone(loads), func(s suite.Scenario) bool { return !slices.Contains(suspects, s.Name) }); len(loads) == 0 {
			break
		}
	}
	return lines, nil
}

// judge prints the result. It returns an error if any figure is worse, may be worse, or was not
// compared.
func (f *guardFlags) judge(figures []guard.Figure, lines []record.Line) error {
	if err := guard.Print(f.stdout, figures); err != nil {
		return err
	}
	missing := guard.Named(figures, guard.Unknown)
	for _, l := range lines {
		if err := suite.Sane(l); err != nil {
			fmt.Fprintf(f.stdout, "failed: %v\n", err)
		} else if l.Absent != "" && len(missing) > 0 {
			fmt.Fprintf(f.stdout, "not tried: %s: %s\n", strings.TrimSpace(l.Scenario.Name+" "+l.Contender.Name), l.Absent)
		}
	}
	for _, v := range []guard.Verdict{guard.Better, guard.PerhapsBetter} {
		if named := guard.Named(figures, v); len(named) > 0 {
			fmt.Fprintf(f.stdout, "%s: %s\n", v, strings.Join(named, "; "))
		}
	}
	if worse := guard.Named(figures, guard.Worse); len(worse) > 0 {
		return fmt.Errorf("worse than before, beyond the noise: %s", strings.Join(worse, "; "))
	}
	if doubtful := guard.Named(figures, guard.PerhapsWorse); len(doubtful) > 0 {
		return fmt.Errorf("not certain, as there were fewer than %d rounds: %s; compare these loads alone (--only)", guard.MoreRounds, strings.Join(doubtful, "; "))
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s had fewer than %d rounds and were not compared", count(len(missing), "figure"), guard.Rounds)
	}
	fmt.Fprintln(f.stdout, "nothing is worse than before, beyond the noise")
	return nil
}
