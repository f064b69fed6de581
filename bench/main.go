// Bench measures haul and its peers, alternately in one run, and reports.
//
//	cd bench && go build -o ../bin/bench . && cd ..
//	bin/bench run --quick --out quick.jsonl      a first look, in five minutes
//	bin/bench run --resume full.jsonl            everything; some hours, in parts
//	bin/bench report full.jsonl --html report.html
//
// Package suite has the scenarios and measures them, package link emulates links, package peer
// starts the peers, and package report formats the results. Bench needs Linux, and root for links
// and for the CPU times of servers that fork.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/bench/link"
)

func main() {
	link.Main()
	os.Exit(run())
}

// run executes the command line, and returns the exit code.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := newRoot().ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	return exitCode(err)
}

// exitInterrupted is the exit code after an interrupt, as in shells.
const exitInterrupted = 130

// exitCode returns bench's exit code. If bench ran a program for its user, the program's exit code
// is used.
func exitCode(err error) int {
	program, ran := errors.AsType[programError](err)
	switch {
	case err == nil:
		return 0
	case ran:
		return program.code
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return 1
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "bench",
		Short:         "Measure haul and its peers, alternately in one run, and report",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(runCommand(), guardCommand(), reportCommand(), linkCommand(), peersCommand())
	return root
}
