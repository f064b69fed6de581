package main

import "github.com/spf13/cobra"

const benchHelp = `Put a TFTP server under load and measure what its clients get, or make the
files for it.`

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a server under load",
		Long:  benchHelp,
		Args:  noCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchTFTP(), newBenchFiles())
	return cmd
}
