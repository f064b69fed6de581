package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/copying"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/remote"
	"github.com/haul-project/haul/store/treecopy"
)

const parallelHelp = "at most `N` files at once, and at most N connections to each server; without the flag small files may be 64 at once over SFTP and HTTP/2"

// copyFlags are the flags of get and put.
type copyFlags struct {
	ssh       sshFlags
	web       webFlags
	tftp      tftpFlags
	parallel  int
	quiet     bool
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
}

// add adds those of SFTP and HTTP.
func (f *copyFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVarP(&f.recursive, "recursive", "r", false, "copy directories with all that is in them")
	flags.BoolVar(&f.resume, "continue", false, "resume where an earlier run with --continue was cut off; keep the received part if this one is")
	flags.Var(&f.unchanged, "unchanged", "skip files that are unchanged: `HOW` is time (same size and time; keeps times; the default) or hash (same content)")
	flags.Lookup("unchanged").NoOptDefVal = "time"
	flags.BoolVarP(&f.preserve, "preserve", "p", false, "keep permissions and times")
	flags.Var(&f.links, "links", "symbolic links in directories: `HOW` is skip, keep or follow")
	flags.BoolVar(&f.sparse, "sparse", false, "leave holes where there are zeros")
	flags.Var(&f.limit, "limit", "bytes a second for all files together, such as 20MB (0: no limit)")
	flags.BoolVar(&f.verify, "verify", false, "compare each copy with its source")
	flags.BoolVar(&f.fsync, "fsync", false, "wait until each file is on the disk")
	flags.BoolVar(&f.inPlace, "in-place", false, "write to the target itself, where others see it grow")
	completeWords(cmd, "unchanged", "time", "hash")
	completeWords(cmd, "links", linkWords[:]...)
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "name each file that is copied or skipped, with the reason")
	flags.BoolVarP(&f.dryRun, "dry-run", "n", false, "print what would be done, and do nothing")
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
		},
		Remote:  remoteConfig(&f.ssh, &f.web, cmd.ErrOrStderr()),
		Verbose: f.verbose,
		Quiet:   f.quiet,
		Stdin:   cmd.InOrStdin(), Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr(),
	}
	if cmd.Flags().Changed("parallel") {
		cfg.Parallel = f.parallel
	}
	cfg.Remote.Conns = f.parallel
	cfg.Remote.TFTP, err = f.tftp.config()
	return cfg, err
}

// sendable refuses flags that mean nothing for files that are sent over HTTP.
func (f *copyFlags) sendable(p remote.Protocol) error {
	if p != remote.HTTP {
		return nil
	}
	for _, no := range []struct {
		set       bool
		name, why string
	}{
		{f.preserve, "--preserve", "HTTP cannot set permissions or times"},
		{f.sparse, "--sparse", "HTTP sends every byte of a file"},
		{treecopy.Unchanged(f.unchanged) == treecopy.SizeAndTime, "--unchanged", "over HTTP a file has the time of its upload, which says nothing of its content; --unchanged=hash compares that"},
		{f.inPlace, "--in-place", "HTTP has no way to change a part of a file"},
		{f.fsync, "--fsync", "HTTP has no way to ask for that"},
		{f.links == linksFlag(treecopy.KeepLinks), "--links keep", "HTTP has no symbolic links"},
	} {
		if no.set {
			return failure.Usage.Errorf("%s: %s", no.name, no.why)
		}
	}
	return nil
}

// An unchangedFlag is a treecopy.Unchanged on the command line.
type unchangedFlag treecopy.Unchanged

// Set reads it.
func (u *unchangedFlag) Set(s string) error {
	switch s {
	case "time":
		*u = unchangedFlag(treecopy.SizeAndTime)
	case "hash":
		*u = unchangedFlag(treecopy.Hash)
	default:
		return errors.New("it is time or hash")
	}
	return nil
}

// String returns what Set takes.
func (u *unchangedFlag) String() string {
	return [...]string{treecopy.Never: "", treecopy.SizeAndTime: "time", treecopy.Hash: "hash"}[*u]
}

// Type names what Set takes, for the help text.
func (u *unchangedFlag) Type() string { return "HOW" }

// A linksFlag is a treecopy.Links on the command line.
type linksFlag treecopy.Links

var linkWords = [...]string{treecopy.SkipLinks: "skip", treecopy.KeepLinks: "keep", treecopy.FollowLinks: "follow"}

// Set reads it.
func (l *linksFlag) Set(s string) error {
	for i, w := range linkWords {
		if s == w {
			*l = linksFlag(i)
			return nil
		}
	}
	return errors.New("it is skip, keep or follow")
}

// String returns what Set takes.
func (l *linksFlag) String() string { return linkWords[*l] }

// Type names what Set takes, for the help text.
func (l *linksFlag) Type() string { return "HOW" }
