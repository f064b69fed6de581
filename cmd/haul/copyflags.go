package main

import (
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
	"github.com/haul-project/haul/store/treecopy"
)

// copyFlags holds the flags of get, put and sync.
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
	filters   []filterSource // values of the filter flags, in the order of the command line
}

// addCopying adds the flags that get, put and sync have in common. The function passed as `add` adds
// those flags of the command that all protocols except TFTP support.
func (f *copyFlags) addCopying(cmd *cobra.Command, add func(*cobra.Command)) {
	flags := cmd.Flags()
	flags.IntVar(&f.parallel, "parallel", copying.DefaultParallel, "at most `N` files at once, and at most N connections to each server; without the flag small files may be 64 at once over SFTP, HTTP/2 and S3")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print nothing but errors")
	flags.BoolVar(&f.json, "json", false, eventsFlagHelp)
	commandline.AddGroup(cmd, add, remote.WithTrees()...)
	addServers(cmd, &f.ssh, &f.web)
	commandline.AddGroup(cmd, f.ssh.addRequests, "SFTP")
}

// add adds the flags of get and put for all protocols except TFTP.
func (f *copyFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVarP(&f.recursive, "recursive", "r", false, "copy directories with all that is in them")
	flags.Var(&f.unchanged, "unchanged", "skip files that are unchanged: `HOW` is time (same size and time; keeps times; the default), size (same size) or hash (same content)")
	flags.Lookup("unchanged").NoOptDefVal = "time"
	flags.BoolVar(&f.inPlace, "in-place", false, "write to the target itself, where others see it grow")
	commandline.CompleteWords(cmd, "unchanged", unchangedWords[treecopy.SizeAndTime:]...)
	f.addShared(cmd)
}

// addShared adds the flags of get, put and sync for all protocols except TFTP.
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

// config checks the flags, and returns the configuration of a copy over the protocol p.
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

// events returns the configuration of a copy's events.
func (f *copyFlags) events(sources []string, to string) events.Config {
	return events.Config{Sources: sources, To: to, DryRun: f.dryRun, Quiet: f.quiet}
}

// sendable returns an error if flags are set that have no meaning when files are sent over HTTP or
// S3.
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

// An unchangedFlag is the value of a flag that selects a [treecopy.Unchanged].
type unchangedFlag treecopy.Unchanged

var unchangedWords = [...]string{treecopy.Never: "", treecopy.SizeAndTime: "time", treecopy.Hash: "hash", treecopy.Size: "size"}

// Set parses the value.
func (u *unchangedFlag) Set(s string) error {
	i := slices.Index(unchangedWords[:], s)
	if i < int(treecopy.SizeAndTime) {
		return errors.New("it is time, size or hash")
	}
	*u = unchangedFlag(i)
	return nil
}

// String returns the value in the syntax of Set.
func (u *unchangedFlag) String() string { return unchangedWords[*u] }

// Type returns the kind of value, for help texts.
func (u *unchangedFlag) Type() string { return "HOW" }

// A linksFlag is the value of a flag that selects a [treecopy.Links].
type linksFlag treecopy.Links

var linkWords = [...]string{treecopy.SkipLinks: "skip", treecopy.KeepLinks: "keep", treecopy.FollowLinks: "follow"}

// Set parses the value.
func (l *linksFlag) Set(s string) error {
	i := slices.Index(linkWords[:], s)
	if i < 0 {
		return errors.New("it is skip, keep or follow")
	}
	*l = linksFlag(i)
	return nil
}

// String returns the value in the syntax of Set.
func (l *linksFlag) String() string { return linkWords[*l] }

// Type returns the kind of value, for help texts.
func (l *linksFlag) Type() string { return "HOW" }

// copyGarbage is the growth of the heap between two garbage collections of a copy over SFTP, in
// percent of the live heap. x/crypto allocates memory for each packet, and little of it stays live,
// so by default a collection would run for every few megabytes transferred.
const copyGarbage = 400

// relaxCollector makes the garbage collector run less often during a copy of files over SFTP.
// Little memory is live during such a copy: the data in flight, at most 128 MiB, and some names.
//
// relaxCollector does nothing for a recursive copy. A tree may have millions of directories, so
// four times the live memory would be too much, and a collector with a fixed limit would run all
// the time. If GOGC is set, it has precedence.
func relaxCollector(over remote.Protocol, recursive bool) {
	if over == remote.SFTP && !recursive && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(copyGarbage)
	}
}
