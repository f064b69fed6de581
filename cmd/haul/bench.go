package main

import "github.com/spf13/cobra"

const benchHelp = `Measure a TFTP server under load, or make the files for it.`

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure a server under load",
		Long:    benchHelp,
		Example: "  haul bench files /srv/tftp --size 1MB --count 100\n  haul bench tftp tftp://192.0.2.1/f{} -c 100 --names 100 --pattern",
		Args:    noCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchTFTP(), newBenchFiles())
	return cmd
}
