// Package commandline implements the common parts of haul's commands: help and its topics, groups
// of flags, errors about usage, completions for shells, and manual pages.
package commandline

import (
	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

// Setup adds help, completions and manual pages to a root command. All commands must have been
// added to root before. Setup also turns errors about flags into usage errors.
func (p *Program) Setup(root *cobra.Command) {
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		// In "haul user shwo --users f", the command is wrong, not its flag.
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
