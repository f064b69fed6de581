// Package commandline is what haul's commands have in common: help and its topics, groups of
// flags, complaints about mistakes, completions for shells, and manual pages.
package commandline

import (
	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

// Setup gives a root command, which has all its commands, help, completions and manual pages.
// Mistakes in flags become usage errors.
func (p *Program) Setup(root *cobra.Command) {
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		// Of "haul user shwo --users f" the command is what is wrong, not its flag.
		if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 {
			return p.NoCommand(cmd, cmd.Flags().Args())
		}
		return failure.Usage.Wrap(FlagError(cmd, err))
	})
	root.SetHelpCommand(p.newHelp())
	root.AddCommand(p.newMan())
	p.addCompletion(root)
	root.SetHelpFunc(p.printHelp)
	addHelp(root)
}
