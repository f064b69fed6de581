// Bench measures haul and its peers, alternately in one run, and reports.
//
//	cd bench && go build -o ../bin/bench . && cd ..
//	bin/bench run --quick --out quick.jsonl      a first look, in five minutes
//	bin/bench run --out full.jsonl               everything; an hour or two
//	bin/bench report full.jsonl --html report.html
//
// What the scenarios are and how they are measured is in package suite, what
// a link does to packets in package link, how the peers are started in package
// peer, and what becomes of the results in package report. It needs Linux, and
// root for links and for CPU times of servers that fork.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/bench/link"
)

func main() {
	link.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "bench",
		Short:         "Measure haul and its peers, alternately in one run, and report",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(runCommand(), reportCommand(), linkCommand(), peersCommand())
	return root
}
