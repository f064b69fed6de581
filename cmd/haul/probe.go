package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/fileops"
	"github.com/haul-project/haul/internal/remote"
)

const probeHelp = `Print the size of files on SFTP, HTTP(S) or TFTP servers, in bytes.

Of several locations, each line has the location too. haul fetches no data: it asks
with HEAD over HTTP, or for one byte if the server has no HEAD, and with the option
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
		Args:        args(cobra.MinimumNArgs(1)),
		Annotations: more("quiet batch password-file identity jump port cacert blksize timeout trace", "locations"),
		RunE: func(cmd *cobra.Command, words []string) error {
			list, err := remote.ParseAll(words)
			if err != nil {
				return err
			}
			if list[0].Protocol == remote.Local {
				if err := remote.MissingScheme(list[0].Text); err != nil {
					return err
				}
				return failure.Usage.Errorf("probe %v: that is a local file; a location is a URL sftp://HOST/PATH, https://HOST/PATH or tftp://HOST/FILE, or HOST:PATH", list[0])
			}
			if list[0].Protocol != remote.TFTP {
				return onServers(cmd, &s, &w, words, func(ctx context.Context, s *remote.Servers, list []remote.Location) error {
					return probe(ctx, cmd.OutOrStdout(), list, func(ctx context.Context, l remote.Location) (int64, error) { return fileops.Size(ctx, s, l) })
				})
			}
			for _, l := range list {
				if l.IsRemote() && l.Protocol != remote.TFTP {
					return mixed("probe", list[0], l)
				}
			}
			if err := onlyFlagsOf(remote.TFTP, cmd); err != nil {
				return err
			}
			return probeTFTP(cmd, &f, list)
		},
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing but sizes and errors")
	addGroup(cmd, f.add, "TFTP")
	addServers(cmd, &s, &w)
	return cmd
}

// probe prints the sizes of files, each as soon as it is known.
func probe(ctx context.Context, out io.Writer, list []remote.Location, size func(context.Context, remote.Location) (int64, error)) error {
	var errs []error
	name := console.NameFormat(out)
	for _, l := range list {
		n, err := size(ctx, l)
		switch {
		case err != nil:
			errs = append(errs, err)
		case len(list) == 1:
			_, err = fmt.Fprintln(out, n)
			errs = append(errs, failure.Local.Wrap(err))
		default:
			_, err = fmt.Fprintln(out, n, name(l.Text))
			errs = append(errs, failure.Local.Wrap(err))
		}
	}
	return errors.Join(errs...)
}

// probeTFTP prints the sizes of files on servers of TFTP.
func probeTFTP(cmd *cobra.Command, f *tftpFlags, list []remote.Location) error {
	cfg, err := f.config()
	if err != nil {
		return err
	}
	t, err := remote.OpenTFTP(cfg, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer t.Close()
	c := t.Client()
	return probe(cmd.Context(), cmd.OutOrStdout(), list, func(ctx context.Context, l remote.Location) (int64, error) {
		target, err := cfg.File(l)
		if err != nil {
			return 0, err
		}
		return c.Size(ctx, target)
	})
}
