package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/copying"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/remote"
)

const putHelp = `Send files over SFTP, HTTP(S) or TFTP.

TARGET is HOST:PATH, or a URL that begins with sftp://, http://, https:// or tftp://.
Several files go to a directory, under their own names; over HTTP and TFTP, its URL
ends in a slash. A LOCAL directory that ends in /. stands for its contents. - is
standard input, and TARGET then names the file.

A file appears under its name when it is complete. If its transfer fails, nothing is
left of it, except with --continue or --in-place. haul reports success when the server
has acknowledged every file.

Over HTTP, the server has to make directories, as haul's does, and nginx's with
create_full_put_path. Directories without files are left out there.`

const putExamples = `  haul put report.pdf host:
  haul put -r -p --continue photos me@192.0.2.1:/srv/backup/
  haul put --unchanged=hash *.img sftp://host:2222/srv/images/
  pg_dump db | haul put - host:db.sql
  haul put disk.raw https://me@example.com/images/
  haul put -r photos https://me@example.com/backup/
  haul put firmware.bin tftp://192.0.2.1/firmware.bin
  haul put a.cfg b.cfg tftp://192.0.2.1/configs/`

func newPut() *cobra.Command {
	var f copyFlags
	cmd := &cobra.Command{
		Use:         "put LOCAL... TARGET",
		Short:       "Send files",
		Long:        putHelp,
		Example:     putExamples,
		Args:        args(cobra.MinimumNArgs(2)),
		Annotations: more("recursive preserve continue unchanged verify links limit parallel dry-run verbose quiet batch identity jump port", "copying", "locations", "patterns", "sizes"),
		RunE: func(cmd *cobra.Command, words []string) error {
			files, to, err := splitTarget(words)
			if err != nil {
				return err
			}
			cfg, err := f.config(cmd, to.Protocol)
			if err != nil {
				return err
			}
			if err := f.sendable(to.Protocol); err != nil {
				return err
			}
			return copying.Put(cmd.Context(), cfg, files, to)
		},
	}
	cmd.Flags().IntVar(&f.parallel, "parallel", copying.DefaultParallel, parallelHelp)
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print nothing but errors")
	addGroup(cmd, f.tftp.add, "TFTP")
	addGroup(cmd, f.add, remote.WithTrees()...)
	addServers(cmd, &f.ssh, &f.web)
	addGroup(cmd, f.ssh.addRequests, "SFTP")
	return cmd
}

// splitTarget separates the files of haul put from its target.
func splitTarget(words []string) (files []string, to remote.Location, err error) {
	files = words[:len(words)-1]
	if to, err = remote.Parse(words[len(words)-1]); err != nil {
		return nil, to, err
	}
	if !to.IsRemote() {
		if err := remote.MissingScheme(to.Text); err != nil {
			return nil, to, err
		}
		return nil, to, failure.Usage.Errorf("put to %v: that is a local name; a target is a URL sftp://HOST/PATH, https://HOST/PATH or tftp://HOST/FILE, or HOST:PATH", to)
	}
	for _, file := range files {
		switch l, err := remote.Parse(file); {
		case err != nil:
			return nil, to, err
		case l.IsRemote():
			if _, err := os.Lstat(file); err == nil {
				return nil, to, failure.Usage.Errorf("put %v: that means a file on a server; the local one of that name is ./%s", l, console.Visible(file))
			}
			return nil, to, failure.Usage.Errorf("put %v: a file to send is a local one; get it first", l)
		}
	}
	return files, to, nil
}
