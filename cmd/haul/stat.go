package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/fileops"
	"github.com/haul-project/haul/internal/remote"
)

func newStat() *cobra.Command {
	var f sshFlags
	var w webFlags
	var asJSON, follow bool
	cmd := &cobra.Command{
		Use:   "stat LOCATION...",
		Short: "Describe files on a server",
		Long: `Describe the file at each location on an SFTP or a web server.

haul prints type, size, permissions, owner, times, and where a symbolic link leads, as
far as the server reports them.`,
		Example:     "  haul stat host:images/disk.raw\n  haul stat --json sftp://backup@192.0.2.1/srv/a | jq .size",
		Args:        args(cobra.MinimumNArgs(1)),
		Annotations: more("json dereference batch identity jump port", "locations", "patterns", "json"),
		RunE: func(cmd *cobra.Command, words []string) error {
			return onServers(cmd, &f, &w, words, func(ctx context.Context, s *remote.Servers, list []remote.Location) error {
				var errs []error
				for _, l := range list {
					errs = append(errs, fileops.Stat(ctx, s, l, follow, asJSON, cmd.OutOrStdout()))
				}
				return errors.Join(errs...)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object for each location")
	cmd.Flags().BoolVarP(&follow, "dereference", "L", false, "describe what a symbolic link leads to")
	addServers(cmd, &f, &w)
	return cmd
}

func newDf() *cobra.Command {
	var f sshFlags
	var human, asJSON bool
	cmd := &cobra.Command{
		Use:   "df LOCATION...",
		Short: "Show how much room there is on an SFTP server",
		Long: `Show how much room there is on the file system of each location.

haul prints the size, and how much is used and free, in KiB or with -h in larger
units. The server needs the extension statvfs@openssh.com, which OpenSSH and haul
have.`,
		Example:     "  haul df -h host:/srv",
		Args:        args(cobra.MinimumNArgs(1)),
		Annotations: more("human-readable json batch identity jump port", "locations", "sizes", "json"),
		RunE: func(cmd *cobra.Command, words []string) error {
			return onServers(cmd, &f, nil, words, func(ctx context.Context, s *remote.Servers, list []remote.Location) error {
				return fileops.Space(ctx, s, list, human, asJSON, cmd.OutOrStdout())
			})
		},
	}
	humanFlag(cmd, &human, "show sizes as 1.5G")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object for each location, with sizes in bytes")
	f.add(cmd)
	return cmd
}
