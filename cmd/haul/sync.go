package main

import (
	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/cli/events"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/copying"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/store/treecopy"
)

const syncHelp = `Make a directory like another one, over SFTP, HTTP(S) or S3.

SOURCE and DEST are directories, and at least one of them is on a server. haul copies what
is new or changed in SOURCE to DEST, which it makes if it is missing, and keeps the times
of files: a file of the same size and time is unchanged. --delete then deletes in DEST what
SOURCE does not have. -n prints what would be done, does nothing, and exits with 0 even if
there are differences.

haul deletes when all copies are done, and only if nothing has failed: SOURCE was listed to
its end, and is not empty, as a disk that is not mounted is. Excluded files stay. A file
with a new name in SOURCE is renamed in DEST if a hash of the server shows that it is the
same.

If haul is killed, no file in DEST is half there, and the same command does the rest.`

const syncExamples = `  haul sync -n --delete photos host:backup/photos     what would be copied and deleted
  haul sync --delete --max-delete 100 photos host:backup/photos
  haul sync host:/srv/www www
  haul sync --exclude '*.o' --exclude .git/ src https://me@example.com/src/
  haul sync --include '*.jpg' s3://bucket/photos photos`

// syncFlags are the flags of sync.
type syncFlags struct {
	copyFlags
	checksum       bool
	sizeOnly       bool
	delete         bool
	maxDelete      int64
	deleteExcluded bool
	force          bool
}

func newSync() *cobra.Command {
	var f syncFlags
	cmd := &cobra.Command{
		Use:         "sync SOURCE DEST",
		SuggestFor:  []string{"mirror"},
		Short:       "Make a directory like another one",
		Long:        syncHelp,
		Example:     syncExamples,
		Args:        commandline.Args(cobra.ExactArgs(2)),
		Annotations: commandline.More("delete max-delete exclude include filter-from checksum preserve limit dry-run verbose quiet json batch identity jump port", "copying", "patterns", "locations", "sizes", "json"),
		RunE: func(cmd *cobra.Command, words []string) error {
			list, err := remote.ParseAll(words)
			if err != nil {
				return err
			}
			from, to := list[0], list[1]
			cfg, err := f.config(cmd, from, to)
			if err != nil {
				return err
			}
			return withEvents(cmd, f.json, f.events(words[:1], words[1]), func(log *events.Log) error {
				cfg.Events = log
				return copying.Copy(cmd.Context(), cfg, copying.Sync, list[:1], to)
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.checksum, "checksum", false, "compare the content of files of the same size, instead of their times")
	flags.BoolVar(&f.sizeOnly, "size-only", false, "take files of the same size for unchanged, whatever their times are")
	flags.BoolVar(&f.delete, "delete", false, "delete in DEST what SOURCE does not have")
	flags.Int64Var(&f.maxDelete, "max-delete", -1, "delete nothing if it would be more than `N` files and directories (-1: no limit)")
	flags.BoolVar(&f.deleteExcluded, "delete-excluded", false, "delete in DEST what is excluded, too")
	flags.BoolVar(&f.force, "force", false, "delete even if SOURCE is empty")
	f.addCopying(cmd, f.addShared)
	return cmd
}

// config returns the configuration of a sync between two directories.
func (f *syncFlags) config(cmd *cobra.Command, from, to remote.Location) (cfg copying.Config, err error) {
	for _, l := range []remote.Location{from, to} {
		if l.Protocol == remote.TFTP {
			return cfg, failure.Usage.Errorf("sync %v: TFTP lists no directories, and deletes no files; sync works over SFTP, HTTP and S3", l)
		}
	}
	over := to.Protocol
	switch {
	case !from.IsRemote() && !to.IsRemote():
		return cfg, failure.Usage.Errorf("sync %v to %v: both are on this machine; one has to be HOST:PATH, sftp://HOST/PATH, https://HOST/PATH or s3://BUCKET/KEY", from, to)
	case !to.IsRemote():
		over = from.Protocol
	case from.IsRemote():
		if err := onlyFlagsOf(from.Protocol, cmd); err != nil {
			return cfg, err
		}
	}
	for _, no := range []struct {
		set  bool
		name string
	}{{f.maxDelete >= 0, "max-delete"}, {f.deleteExcluded, "delete-excluded"}, {f.force, "force"}} {
		if no.set && !f.delete {
			return cfg, failure.Usage.Errorf("--%s: it is for --delete", no.name)
		}
	}
	switch {
	case f.maxDelete < -1:
		return cfg, failure.Usage.Errorf("--max-delete %d: choose 0 or more, or -1 for no limit", f.maxDelete)
	case f.checksum && f.sizeOnly:
		return cfg, failure.Usage.Errorf("--checksum and --size-only: choose one")
	case f.delete && f.noClobber:
		return cfg, failure.Usage.Errorf("--delete and --no-clobber: the second leaves alone what is there")
	}
	if cfg, err = f.copyFlags.config(cmd, over); err != nil {
		return cfg, err
	}
	if to.IsRemote() {
		if err := f.sendable(to.Protocol); err != nil {
			return cfg, err
		}
	}
	switch {
	case f.checksum:
		cfg.Unchanged = treecopy.Hash
	case f.sizeOnly:
		cfg.Unchanged = treecopy.Size
	}
	if f.delete {
		cfg.Delete = &treecopy.Deletion{Max: f.maxDelete, Excluded: f.deleteExcluded, EmptySource: f.force}
	}
	return cfg, nil
}
