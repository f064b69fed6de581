package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/fileops"
	"github.com/haul-project/haul/internal/remote"
)

const rmHelp = `Remove files on a server, and with -r directories with all that is in them.

haul removes symbolic links, and not what they lead to. A name that ends in a slash is
that of a directory. haul refuses /, the home directory, and names that end in . or
.., and removes single files only from web servers.

-n removes nothing and prints all names that would be removed, sorted; those that end
in a slash are directories.`

func newRm() *cobra.Command {
	var f sshFlags
	var w webFlags
	var m fileops.RemoveConfig
	cmd := &cobra.Command{
		Use:         "rm LOCATION...",
		Short:       "Remove files on a server",
		Long:        rmHelp,
		Example:     "  haul rm host:old.img\n  haul rm 'host:logs/*.gz'\n  haul rm -n 'host:logs/**/*.gz'\n  haul rm -rf sftp://backup@192.0.2.1/srv/2019",
		Args:        args(cobra.MinimumNArgs(1)),
		Annotations: more("recursive force dry-run verbose batch identity jump port", "locations", "patterns"),
		RunE: func(cmd *cobra.Command, words []string) error {
			return onServers(cmd, &f, &w, words, func(ctx context.Context, s *remote.Servers, list []remote.Location) error {
				return fileops.Remove(ctx, s, list, m, cmd.OutOrStdout())
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&m.Recursive, "recursive", "r", false, "remove directories with all that is in them")
	flags.BoolVarP(&m.Force, "force", "f", false, "ignore files that do not exist")
	flags.BoolVarP(&m.DryRun, "dry-run", "n", false, "print what would be removed, and remove nothing")
	flags.BoolVarP(&m.Verbose, "verbose", "v", false, "print the names of what is removed; a directory is one line")
	addServers(cmd, &f, &w)
	return cmd
}
