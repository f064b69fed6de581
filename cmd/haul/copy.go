package main

import (
	"cmp"
	"errors"
	"os"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/events"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/copying"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/store/glob"
	"github.com/haul-project/haul/store/treecopy"
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
			if f.json {
				if err := checkApart(cmd.OutOrStdout(), local); err != nil {
					return err
				}
			}
			relaxCollector(from[0].Protocol, f.recursive)
			return withEvents(cmd, f.json, f.events(words[:len(from)], cmp.Or(local, ".")), func(log *events.Log) error {
				cfg.Events = log
				return copying.Get(cmd.Context(), cfg, from, local)
			})
		},
	}
	commandline.AddGroup(cmd, f.tftp.addDownloads, "TFTP")
	f.addCopying(cmd, f.add)
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
	return failure.Usage.Errorf("get %v: that is a local file; a source is a URL sftp://HOST/PATH, https://HOST/PATH, s3://BUCKET/KEY or tftp://HOST/FILE, or HOST:PATH", l)
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
			relaxCollector(to.Protocol, f.recursive)
			return withEvents(cmd, f.json, f.events(files, to.Text), func(log *events.Log) error {
				cfg.Events = log
				return copying.Put(cmd.Context(), cfg, files, to)
			})
		},
	}
	commandline.AddGroup(cmd, f.tftp.add, "TFTP")
	f.addCopying(cmd, f.add)
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
		return nil, to, failure.Usage.Errorf("put to %v: that is a local name; a target is a URL sftp://HOST/PATH, https://HOST/PATH, s3://BUCKET/KEY or tftp://HOST/FILE, or HOST:PATH", to)
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

// copyFlags are the flags of get, put and sync.
type copyFlags struct {
	ssh       sshFlags
	web       webFlags
	tftp      tftpFlags
	parallel  int
	quiet     bool
	json      bool
	recursive bool
	resume    bool
	unchanged unchangedFlag
	preserve  bool
	links     linksFlag
	sparse    bool
	limit     console.ByteSize
	verify    bool
	fsync     bool
	inPlace   bool
	dryRun    bool
	verbose   bool
	noClobber bool
	update    bool
	filters   []filterSource // in their order on the command line
}

// addCopying adds the flags that get, put and sync have alike, and by add those of one of them
// for all protocols but TFTP.
func (f *copyFlags) addCopying(cmd *cobra.Command, add func(*cobra.Command)) {
	flags := cmd.Flags()
	flags.IntVar(&f.parallel, "parallel", copying.DefaultParallel, "at most `N` files at once, and at most N connections to each server; without the flag small files may be 64 at once over SFTP, HTTP/2 and S3")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print nothing but errors")
	flags.BoolVar(&f.json, "json", false, eventsFlagHelp)
	commandline.AddGroup(cmd, add, remote.WithTrees()...)
	addServers(cmd, &f.ssh, &f.web)
	commandline.AddGroup(cmd, f.ssh.addRequests, "SFTP")
}

// add adds those of get and put for all but TFTP.
func (f *copyFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVarP(&f.recursive, "recursive", "r", false, "copy directories with all that is in them")
	flags.Var(&f.unchanged, "unchanged", "skip files that are unchanged: `HOW` is time (same size and time; keeps times; the default), size (same size) or hash (same content)")
	flags.Lookup("unchanged").NoOptDefVal = "time"
	flags.BoolVar(&f.inPlace, "in-place", false, "write to the target itself, where others see it grow")
	commandline.CompleteWords(cmd, "unchanged", unchangedWords[treecopy.SizeAndTime:]...)
	f.addShared(cmd)
}

// addShared adds those of get, put and sync for all but TFTP.
func (f *copyFlags) addShared(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.resume, "continue", false, "resume where an earlier run with --continue was cut off; keep the received part if this one is")
	flags.BoolVarP(&f.preserve, "preserve", "p", false, "keep permissions and times")
	flags.Var(&f.links, "links", "symbolic links in directories: `HOW` is skip, keep or follow")
	flags.BoolVar(&f.sparse, "sparse", false, "leave holes where there are zeros")
	flags.Var(&f.limit, "limit", "bytes a second for all files together, such as 20MB (0: no limit)")
	flags.BoolVar(&f.verify, "verify", false, "compare each copy with its source")
	flags.BoolVar(&f.fsync, "fsync", false, "wait until each file is on the disk")
	commandline.CompleteWords(cmd, "links", linkWords[:]...)
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "name each file that is copied or skipped, with the reason")
	flags.BoolVarP(&f.dryRun, "dry-run", "n", false, "print what would be done, and do nothing")
	flags.BoolVar(&f.noClobber, "no-clobber", false, "leave files alone that are there already")
	flags.BoolVar(&f.update, "update", false, "leave files alone that are newer than their source")
	for _, k := range []filterKind{exclude, include, filterFrom} {
		flags.Var(filterFlag{k, &f.filters}, string(k), k.usage())
	}
}

// config returns what the flags say for a copy over a protocol.
func (f *copyFlags) config(cmd *cobra.Command, p remote.Protocol) (cfg copying.Config, err error) {
	if f.parallel < 1 {
		return cfg, failure.Usage.Errorf("--parallel %d: must be above 0", f.parallel)
	}
	if err := onlyFlagsOf(p, cmd); err != nil {
		return cfg, err
	}
	if err := f.ssh.check(); err != nil {
		return cfg, err
	}
	if p != remote.TFTP && f.parallel > treecopy.MaxParallel {
		return cfg, failure.Usage.Errorf("--parallel %d: over %v it is at most %d", f.parallel, p, treecopy.MaxParallel)
	}
	cfg = copying.Config{
		Options: treecopy.Options{
			Recursive:     f.recursive,
			Continue:      f.resume,
			Unchanged:     treecopy.Unchanged(f.unchanged),
			PreserveMode:  f.preserve,
			PreserveTimes: f.preserve,
			Links:         treecopy.Links(f.links),
			Sparse:        f.sparse,
			Limit:         int64(f.limit),
			Verify:        f.verify,
			Durable:       f.fsync,
			InPlace:       f.inPlace,
			DryRun:        f.dryRun,
			NoClobber:     f.noClobber,
			Update:        f.update,
		},
		Remote:  remoteConfig(&f.ssh, &f.web, cmd.ErrOrStderr()),
		Verbose: f.verbose,
		Quiet:   f.quiet,
		Stdin:   cmd.InOrStdin(), Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr(),
	}
	if cmd.Flags().Changed("parallel") {
		cfg.Parallel, cfg.Remote.Conns = f.parallel, f.parallel
	}
	if len(f.filters) > 0 {
		if cmd.Flags().Lookup("recursive") != nil && !f.recursive {
			return cfg, failure.Usage.Errorf("--%s: it is for what is in directories, with -r; a SOURCE that is named is copied", f.filters[0].kind)
		}
		if cfg.Filter, err = readFilters(f.filters); err != nil {
			return cfg, err
		}
	}
	cfg.Remote.TFTP, err = f.tftp.config()
	return cfg, err
}

// events returns what the events of a copy begin with.
func (f *copyFlags) events(sources []string, to string) events.Config {
	return events.Config{Sources: sources, To: to, DryRun: f.dryRun, Quiet: f.quiet}
}

// sendable refuses flags that mean nothing for files that are sent over HTTP or S3.
func (f *copyFlags) sendable(p remote.Protocol) error {
	if p != remote.HTTP && p != remote.S3 {
		return nil
	}
	for _, no := range []struct {
		set       bool
		name, why string
	}{
		{f.preserve, "--preserve", "%v cannot set permissions or times"},
		{f.sparse, "--sparse", "%v sends every byte of a file"},
		{treecopy.Unchanged(f.unchanged) == treecopy.SizeAndTime, "--unchanged", "over %v a file has the time of its upload, which says nothing of its content; --unchanged=hash compares that"},
		{f.inPlace, "--in-place", "%v has no way to change a part of a file"},
		{f.fsync, "--fsync", "%v has no way to ask for that"},
		{f.links == linksFlag(treecopy.KeepLinks), "--links keep", "%v has no symbolic links"},
	} {
		if no.set {
			return failure.Usage.Errorf("%s: "+no.why, no.name, p)
		}
	}
	return nil
}

// An unchangedFlag is a treecopy.Unchanged on the command line.
type unchangedFlag treecopy.Unchanged

var unchangedWords = [...]string{treecopy.Never: "", treecopy.SizeAndTime: "time", treecopy.Hash: "hash", treecopy.Size: "size"}

// Set reads it.
func (u *unchangedFlag) Set(s string) error {
	i := slices.Index(unchangedWords[:], s)
	if i < int(treecopy.SizeAndTime) {
		return errors.New("it is time, size or hash")
	}
	*u = unchangedFlag(i)
	return nil
}

// String returns what Set takes.
func (u *unchangedFlag) String() string { return unchangedWords[*u] }

// Type names what Set takes, for the help text.
func (u *unchangedFlag) Type() string { return "HOW" }

// A linksFlag is a treecopy.Links on the command line.
type linksFlag treecopy.Links

var linkWords = [...]string{treecopy.SkipLinks: "skip", treecopy.KeepLinks: "keep", treecopy.FollowLinks: "follow"}

// Set reads it.
func (l *linksFlag) Set(s string) error {
	i := slices.Index(linkWords[:], s)
	if i < 0 {
		return errors.New("it is skip, keep or follow")
	}
	*l = linksFlag(i)
	return nil
}

// String returns what Set takes.
func (l *linksFlag) String() string { return linkWords[*l] }

// Type names what Set takes, for the help text.
func (l *linksFlag) Type() string { return "HOW" }

// copyGarbage is how far, in percent of what is live, the heap of a copy over SFTP may grow
// before it is collected. x/crypto allocates for each packet, and little stays live, so by
// default a collection runs for every few megabytes moved.
const copyGarbage = 400

// relaxCollector lets the garbage collector run less often in a copy of files over SFTP.
// Little is live then: the data in flight, 128 MiB at most, and some names. A tree may have
// millions of directories, so that four times as much would be too much memory, and a
// collector that is to stay below a fixed limit would run all the time. GOGC, if it is set,
// has precedence.
func relaxCollector(over remote.Protocol, recursive bool) {
	if over == remote.SFTP && !recursive && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(copyGarbage)
	}
}
