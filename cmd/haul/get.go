package main

import (
	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/copying"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/remote"
	"github.com/haul-project/haul/store/glob"
)

const getHelp = `Fetch files over SFTP, HTTP(S) or TFTP.

SOURCE is HOST:PATH, or a URL that begins with sftp://, http://, https:// or tftp://.
LOCAL is the file to write, a directory to put files into, or - for standard output;
the default is the current directory. A SOURCE that ends in /. stands for the contents
of a directory, and one with *, ? or ** for the names that match: put it in quotes for
the shell.

A file appears under its name when it is complete. If its transfer fails, nothing is
left of it, except with --continue or --in-place.`

const getExamples = `  haul get host:backup/db.sql.gz                      over SFTP, as scp would
  haul get -r -p --continue me@192.0.2.1:/srv/images .
                                                      a directory, with permissions and times
  haul get -p --unchanged 'sftp://host:2222/var/log/*.gz' logs/
  haul get host:notes.txt - | less
  haul get --continue https://example.com/images/disk.raw
  haul get -J jump.example -i key.pem sftp://host/~/data.bin
  haul get tftp://192.0.2.1/boot/kernel /tmp/k
  haul get tftp://192.0.2.1/a tftp://192.0.2.1/b images/`

func newGet() *cobra.Command {
	var f copyFlags
	cmd := &cobra.Command{
		Use:         "get SOURCE... [LOCAL|-]",
		Short:       "Fetch files",
		Long:        getHelp,
		Example:     getExamples,
		Args:        args(cobra.MinimumNArgs(1)),
		Annotations: more("recursive preserve continue unchanged verify links limit parallel dry-run verbose quiet batch identity jump port", "copying", "locations", "patterns", "sizes"),
		RunE: func(cmd *cobra.Command, words []string) error {
			from, local, err := splitSources(words)
			if err != nil {
				return err
			}
			if err := noTarget(from, local, f.recursive); err != nil {
				return err
			}
			cfg, err := f.config(cmd, from[0].Protocol)
			if err != nil {
				return err
			}
			return copying.Get(cmd.Context(), cfg, from, local)
		},
	}
	cmd.Flags().IntVar(&f.parallel, "parallel", copying.DefaultParallel, parallelHelp)
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print nothing but errors")
	addGroup(cmd, f.tftp.addDownloads, "TFTP")
	addGroup(cmd, f.add, remote.WithTrees()...)
	addServers(cmd, &f.ssh, &f.web)
	addGroup(cmd, f.ssh.addRequests, "SFTP")
	return cmd
}

// splitSources separates the sources of haul get from LOCAL.
func splitSources(words []string) (from []remote.Location, local string, err error) {
	last, err := remote.Parse(words[len(words)-1])
	switch {
	case words[len(words)-1] == "":
		return nil, "", failure.Usage.Errorf("LOCAL is empty; . is the current directory")
	case err != nil:
		return nil, "", err
	case !last.IsRemote():
		local, words = last.Text, words[:len(words)-1]
	}
	if len(words) == 0 {
		return nil, "", localSource(last)
	}
	if from, err = remote.ParseAll(words); err != nil {
		return nil, "", err
	}
	for _, l := range from {
		switch {
		case !l.IsRemote():
			return nil, "", localSource(l)
		case l.Protocol != from[0].Protocol:
			return nil, "", failure.Usage.Errorf("%v and %v: all sources of one command have to be of the same protocol; fetch them one after the other", from[0], l)
		}
	}
	return from, local, nil
}

// localSource refuses to get what is on this machine.
func localSource(l remote.Location) error {
	if err := remote.MissingScheme(l.Text); err != nil {
		return err
	}
	return failure.Usage.Errorf("get %v: that is a local file; a source is a URL sftp://HOST/PATH, https://HOST/PATH or tftp://HOST/FILE, or HOST:PATH", l)
}

// noTarget refuses a last source that is meant as a target: without -r nobody names
// a directory as a source.
func noTarget(from []remote.Location, local string, recursive bool) error {
	last := from[len(from)-1]
	if local != "" || len(from) < 2 || recursive || last.Protocol == remote.TFTP || !last.IsDirName() || glob.HasMeta(last.Path) {
		return nil
	}
	return failure.Usage.Errorf("get to %v: that is on a server, and get writes to this machine; get the files, and put them there", last)
}
