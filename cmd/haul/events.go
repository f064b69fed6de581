package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/events"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
)

const eventsFlagHelp = "print a JSON object for each event: see haul help json"

// withEvents calls run, which does the work of a command. If `on` is set, it passes run a log of
// the command's events, and otherwise nil. c contains the values from the command line.
func withEvents(cmd *cobra.Command, on bool, c events.Config, run func(*events.Log) error) error {
	if !on {
		return run(nil)
	}
	c.Out, c.Command, c.Classify = cmd.OutOrStdout(), cmd.Name(), classify
	log := events.Begin(cmd.Context(), c)
	err := run(log)
	if err != nil && remote.Advice(err) != "" {
		log.Note(remote.Advice(err))
	}
	return log.End(err)
}

// checkApart returns an error if the events and the local file would be written to the same place.
func checkApart(events io.Writer, local string) error {
	out, ok := events.(interface{ Stat() (os.FileInfo, error) })
	same := local == "-"
	if info, err := os.Stat(local); ok && err == nil && !same {
		stdout, err := out.Stat()
		same = err == nil && os.SameFile(info, stdout) && !info.Mode().IsDir()
	}
	if same {
		return failure.Usage.Errorf("--json: the events and the file would both go to standard output; name a file, and read it when its event has come")
	}
	return nil
}
