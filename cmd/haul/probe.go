package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/client/fileops"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
)

const probeHelp = `Print the size of files on SFTP, HTTP(S), S3 or TFTP servers, in bytes.

Of several locations, each line has the location too. haul fetches no data: it asks
with HEAD over S3 and HTTP, or for one byte if the server has no HEAD, and with the option
tsize over TFTP.`

const probeExamples = `  haul probe tftp://192.0.2.1/boot/kernel
  haul probe https://example.com/images/disk.img
  haul probe --batch host:backup/db.sql.gz`

func newProbe() *cobra.Command {
	var f tftpFlags
	var quiet bool
	var s sshFlags
	var w webFlags
	cmd := &cobra.Command{
		Use:         "probe LOCATION...",
		Short:       "Print the size of files without fetching them",
		Long:        probeHelp,
		Example:     probeExamples,
		Args:        commandline.Args(cobra.MinimumNArgs(1)),
		Annotations: commandline.More("quiet batch password-file identity jump port cacert blksize timeout trace", "locations"),
		RunE: func(cmd *cobra.Command, words []string) error {
			list, err := serverLocations(cmd, true, words)
			if err != nil {
				return err
			}
			if list[0].Protocol != remote.TFTP {
				return onServers(cmd, &s, &w, words, func(ctx context.Context, s *remote.Servers, list []remote.Location) error {
					return fileops.Probe(ctx, s, list, cmd.OutOrStdout())
				})
			}
			if err := onlyFlagsOf(remote.TFTP, cmd); err != nil {
				return err
			}
			cfg, err := f.config()
			if err != nil {
				return err
			}
			return fileops.ProbeTFTP(cmd.Context(), cfg, list, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing but sizes and errors")
	commandline.AddGroup(cmd, f.add, "TFTP")
	addServers(cmd, &s, &w)
	return cmd
}
