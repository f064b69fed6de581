package main

import (
	"cmp"
	"os"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/events"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/copying"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/internal/glob"
)

const getHelp = `Fetch files over SFTP, HTTP(S), S3 or TFTP.

SOURCE is HOST:PATH, or a URL that begins with sftp://, http://, https://, s3:// or
tftp://.
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
  haul get s3://images/disk.raw .
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
		Args:        commandline.Args(cobra.MinimumNArgs(1)),
		Annotations: commandline.More("recursive preserve continue unchanged verify links limit parallel dry-run verbose quiet json batch identity jump port", "copying", "locations", "patterns", "sizes", "json"),
		RunE: func(cmd *cobra.Command, words []string) error {
			from, to, err := splitSources(words)
			if err != nil {
				return err
			}
			if err := noTarget(from, to, f.recursive); err != nil {
				return err
			}
			cfg, err := f.config(cmd, from[0].Protocol)
			if err != nil {
				return err
			}
			if f.json {
				if err := checkApart(cmd.OutOrStdout(), to.Text); err != nil {
					return err
				}
			}
			relaxCollector(from[0].Protocol, f.recursive)
			return withEvents(cmd, f.json, f.events(words[:len(from)], cmp.Or(to.Text, ".")), func(log *events.Log) error {
				cfg.Events = log
				return copying.Copy(cmd.Context(), cfg, copying.Get, from, to)
			})
		},
	}
	commandline.AddGroup(cmd, f.tftp.addDownloads, "TFTP")
	f.addCopying(cmd, f.add)
	return cmd
}

// splitSources separates the sources of haul get from LOCAL, which is empty if it is omitted.
func splitSources(words []string) (from []remote.Location, to remote.Location, err error) {
	last, err := remote.Parse(words[len(words)-1])
	switch {
	case words[len(words)-1] == "":
		return nil, to, failure.Usage.Errorf("LOCAL is empty; . is the current directory")
	case err != nil:
		return nil, to, err
	case !last.IsRemote():
		to, words = last, words[:len(words)-1]
	}
	if len(words) == 0 {
		return nil, to, localSource(last)
	}
	if from, err = remote.ParseAll(words); err != nil {
		return nil, to, err
	}
	for _, l := range from {
		switch {
		case !l.IsRemote():
			return nil, to, localSource(l)
		case l.Protocol != from[0].Protocol:
			return nil, to, failure.Usage.Errorf("%v and %v: all sources of one command have to be of the same protocol; fetch them one after the other", from[0], l)
		}
	}
	return from, to, nil
}

// localSource returns the error for a source of haul get that is on this machine.
func localSource(l remote.Location) error {
	if err := remote.MissingScheme(l.Text); err != nil {
		return err
	}
	return failure.Usage.Errorf("get %v: that is a local file; a source is a URL sftp://HOST/PATH, https://HOST/PATH, s3://BUCKET/KEY or tftp://HOST/FILE, or HOST:PATH", l)
}

// noTarget returns an error if the last source was probably meant as the target: a directory cannot
// be a source without -r.
func noTarget(from []remote.Location, to remote.Location, recursive bool) error {
	last := from[len(from)-1]
	if to.Text != "" || len(from) < 2 || recursive || last.Protocol == remote.TFTP || !last.IsDirName() || glob.HasMeta(last.Path) {
		return nil
	}
	return failure.Usage.Errorf("get to %v: that is on a server, and get writes to this machine; get the files, and put them there", last)
}

const putHelp = `Send files over SFTP, HTTP(S), S3 or TFTP.

TARGET is HOST:PATH, or a URL that begins with sftp://, http://, https://, s3:// or
tftp://.
Several files go to a directory, under their own names; over HTTP, S3 and TFTP, its URL
ends in a slash. A LOCAL directory that ends in /. stands for its contents. - is
standard input, and TARGET then names the file.

A file appears under its name when it is complete. If its transfer fails, nothing is
left of it, except with --continue or --in-place. haul reports success when the server
has acknowledged every file.

Over HTTP, the server has to make directories, as haul's does, and nginx's with
create_full_put_path. Directories without files are left out there, and -p is refused:
HTTP sets no permissions or times. The same is so over S3, where a directory comes with
its first file.`

const putExamples = `  haul put report.pdf host:
  haul put -r -p --continue photos me@192.0.2.1:/srv/backup/
  haul put --unchanged=hash *.img sftp://host:2222/srv/images/
  pg_dump db | haul put - host:db.sql
  haul put disk.raw https://me@example.com/images/
  haul put -r photos https://me@example.com/backup/
  haul put -r photos s3://bucket/photos/
  haul put firmware.bin tftp://192.0.2.1/firmware.bin
  haul put a.cfg b.cfg tftp://192.0.2.1/configs/`

func newPut() *cobra.Command {
	var f copyFlags
	cmd := &cobra.Command{
		Use:         "put LOCAL... TARGET",
		Short:       "Send files",
		Long:        putHelp,
		Example:     putExamples,
		Args:        commandline.Args(cobra.MinimumNArgs(2)),
		Annotations: commandline.More("recursive preserve continue unchanged verify links limit parallel dry-run verbose quiet json batch identity jump port", "copying", "locations", "patterns", "sizes", "json"),
		RunE: func(cmd *cobra.Command, words []string) error {
			from, to, err := splitTarget(words)
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
			relaxCollector(to.Protocol, f.recursive)
			return withEvents(cmd, f.json, f.events(words[:len(from)], to.Text), func(log *events.Log) error {
				cfg.Events = log
				return copying.Copy(cmd.Context(), cfg, copying.Put, from, to)
			})
		},
	}
	commandline.AddGroup(cmd, f.tftp.add, "TFTP")
	f.addCopying(cmd, f.add)
	return cmd
}

// splitTarget separates the sources of haul put from its target.
func splitTarget(words []string) (from []remote.Location, to remote.Location, err error) {
	if to, err = remote.Parse(words[len(words)-1]); err != nil {
		return nil, to, err
	}
	if !to.IsRemote() {
		if err := remote.MissingScheme(to.Text); err != nil {
			return nil, to, err
		}
		return nil, to, failure.Usage.Errorf("put to %v: that is a local name; a target is a URL sftp://HOST/PATH, https://HOST/PATH, s3://BUCKET/KEY or tftp://HOST/FILE, or HOST:PATH", to)
	}
	for _, file := range words[:len(words)-1] {
		l, err := remote.Parse(file)
		switch {
		case err != nil:
			return nil, to, err
		case l.IsRemote():
			if _, err := os.Lstat(file); err == nil {
				return nil, to, failure.Usage.Errorf("put %v: that means a file on a server; the local one of that name is ./%s", l, console.Visible(file))
			}
			return nil, to, failure.Usage.Errorf("put %v: a file to send is a local one; get it first", l)
		}
		from = append(from, l)
	}
	return from, to, nil
}
