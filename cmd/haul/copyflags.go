package main

import (
	"errors"
	"io/fs"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
	"github.com/haul-project/haul/web/webclient"
)

// defaultParallel is --parallel where it is not given.
const defaultParallel = 8

const parallelHelp = "at most `N` files at once, and at most N connections to each server; without the flag small files may be 64 at once over SFTP and HTTP/2"

// checkParallel refuses a --parallel that makes no sense.
func checkParallel(parallel int) error {
	if parallel < 1 {
		return failure.Usage.Errorf("--parallel %d: must be above 0", parallel)
	}
	return nil
}

// copyFlags are the flags of get and put that SFTP and HTTP have.
type copyFlags struct {
	ssh       sshFlags
	web       webFlags
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

func (f *copyFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVarP(&f.recursive, "recursive", "r", false, "copy directories with all that is in them")
	flags.BoolVar(&f.resume, "continue", false, "resume what an earlier run with --continue has kept, and keep what comes if this one is cut off")
	flags.Var(&f.unchanged, "unchanged", "skip files that are unchanged: `HOW` is time (same size and time; keeps times; the default) or hash (same content)")
	flags.Lookup("unchanged").NoOptDefVal = "time"
	flags.BoolVarP(&f.preserve, "preserve", "p", false, "keep permissions and times")
	flags.Var(&f.links, "links", "symbolic links in directories: `HOW` is skip, keep or follow")
	flags.BoolVar(&f.sparse, "sparse", false, "leave holes where there are zeros")
	flags.Var(&f.limit, "limit", "bytes a second for all files together, such as 20MB (0: no limit)")
	flags.BoolVar(&f.verify, "verify", false, "compare each file with its source once it is copied")
	flags.BoolVar(&f.fsync, "fsync", false, "wait until each file is on the disk")
	flags.BoolVar(&f.inPlace, "in-place", false, "write to the target itself, where others see it grow")
	completeWords(cmd, "unchanged", "time", "hash")
	completeWords(cmd, "links", linkWords[:]...)
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "name each file that is copied, and each that is skipped with the reason")
	flags.BoolVarP(&f.dryRun, "dry-run", "n", false, "print what would be done, and do nothing")
}

// options returns what the flags say for a copy of so many files at a time; 0 leaves
// that to the copy.
func (f *copyFlags) options(files int) treecopy.Options {
	return treecopy.Options{
		Recursive:     f.recursive,
		Parallel:      files,
		Continue:      f.resume,
		Unchanged:     treecopy.Unchanged(f.unchanged),
		PreserveMode:  f.preserve,
		Umask:         umask(),
		PreserveTimes: f.preserve,
		FileTimes:     treecopy.Unchanged(f.unchanged) == treecopy.SizeAndTime, // or nothing would be found unchanged
		Links:         treecopy.Links(f.links),
		Sparse:        f.sparse,
		Limit:         int64(f.limit),
		Verify:        f.verify,
		Durable:       f.fsync,
		InPlace:       f.inPlace,
		DryRun:        f.dryRun,
		Fatal: func(err error) bool {
			return errors.Is(err, sftpclient.ErrConnectionLost) || errors.Is(err, sftpclient.ErrClosed) || errors.Is(err, store.ErrNoSpace) ||
				errors.Is(err, webclient.ErrLost) || errors.Is(err, webclient.ErrLogin)
		},
	}
}

// umask returns the bits that new files do not get. It takes the right to execute from
// those who may not read: the umask of new files, which are never executable, does not
// cover it, and copies may have it.
func umask() fs.FileMode {
	if runtime.GOOS == "windows" {
		return 0
	}
	mask := 0o666 &^ store.UserPerm()
	return mask | (mask&0o444)>>2
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
