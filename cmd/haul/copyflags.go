package main

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
	"github.com/haul-project/haul/web"
)

// copyHelp is what get and put say of copies over SFTP and HTTP.
const copyHelp = `
With --continue what has come of a file is kept if the run is cut off, even if it
is killed, and the next run with --continue goes on from there. It goes on only
with what such a run has kept: a file that is there already is copied again, unless
it has the size and the time of the source, which it has if -p was given from the
first run on, or a server that can hash says that the content is the same.
--unchanged skips files of that size and time without --continue, and with =hash
those of the same content, whatever their time. With put over HTTP no time counts, as
the server's is that of the upload: --continue then sends a file again unless the
server's hash says that it is the same, and --unchanged has to be --unchanged=hash.

With -r --continue a directory that is copied to a new name has a hidden file in it
until all is there, and up to then the same command goes on in it, where without
--continue the source would go below it; that takes a server whose directories may be
renamed, and so none of HTTP: name the source LOCAL/. to go on there. A put that goes on with what another run may still be sending, as it may
seem when that was killed, takes 3 s at least, so that the other has noticed.

Symbolic links in directories are left out, unless --links says otherwise. keep
makes them anew with their text as it is, and so they may lead anywhere, also out
of the directory; nothing is written through them. follow copies what they lead
to. get over HTTP follows them, whatever --links says, as servers list them as what
they lead to. Names that are not UTF-8 cannot be copied, and are errors.

A server that cannot be reached is given up after 30 s, which -o ConnectTimeout=N
and ssh_config change, and a login after 2 minutes. One that owes an answer and
sends nothing for 60 s is asked again in a new session, and given up if the third
is silent too: after 3 minutes. Questions are asked on the terminal, or by the
program that SSH_ASKPASS names, as by ssh.

Over HTTP and HTTPS a large file comes over several connections at once, if the
server has ranges and says by an ETag or a Last-Modified which version of the file a
part is of; that also decides whether --continue can go on. A file that is replaced
meanwhile is begun anew, twice at most, and the last time over one connection, which
has all of one version; but to standard output it ends there, as what has gone there
cannot be taken back. --verify compares with the hash that the server tells
(Repr-Digest), or else reads the file again. -r takes a server that lists its
directories in JSON. What HTTP cannot say is not kept by -p: permissions, and over
put anything. Proxies are those of HTTP_PROXY, HTTPS_PROXY and NO_PROXY. A password
is asked for if the server wants one, unless ~/.netrc or --password-file has it, and
goes to no other server. A server that is silent for 60 s is asked again, and one that
has no time (429, 503) after the time that it says, of up to 2 minutes. One that is
gone after it has answered, as while it starts anew, is tried again for some 20 s, with
or without --continue: get goes on with what is missing, if it is the same version
still, and put where the server has it, if that keeps what is cut off, as haul's own
does of files from 32 MiB on; else put begins the file anew, twice at most.`

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
	limit     byteSize
	verify    bool
	fsync     bool
	inPlace   bool
	dryRun    bool
}

func (f *copyFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVarP(&f.recursive, "recursive", "r", false, "copy directories with all that is in them")
	flags.BoolVar(&f.resume, "continue", false, "go on with what an earlier run with --continue has kept, and keep what comes if this one is cut off")
	flags.Var(&f.unchanged, "unchanged", "skip files of the same size and time (see -p), or with =hash those of the same content")
	flags.Lookup("unchanged").NoOptDefVal = "time"
	flags.BoolVarP(&f.preserve, "preserve", "p", false, "keep permissions and times")
	flags.Var(&f.links, "links", "symbolic links in directories: `skip`, keep, or follow them")
	flags.BoolVar(&f.sparse, "sparse", false, "leave holes where there are zeros")
	flags.Var(&f.limit, "limit", "most `bytes` a second, of all files together: 500k, 20MB; 0 means no limit")
	flags.BoolVar(&f.verify, "verify", false, "compare each file with its source once it is copied")
	flags.BoolVar(&f.fsync, "fsync", false, "wait until each file is on the disk")
	flags.BoolVar(&f.inPlace, "in-place", false, "write to the target itself, where others see it grow")
	flags.BoolVarP(&f.dryRun, "dry-run", "n", false, "print what would be done, and do nothing")
}

// addServers adds the flags about each kind of server.
func addServers(cmd *cobra.Command, ssh *sshFlags, web *webFlags) {
	addFor(cmd, ssh.add, ofSFTP)
	addFor(cmd, web.add, ofHTTP)
	_ = cmd.Flags().SetAnnotation("batch", flagsOf, []string{ofSFTP.String(), ofHTTP.String()})
	web.batch = &ssh.batch
}

// options returns what the flags say for a copy of so many files at a time.
func (f *copyFlags) options(parallel int) treecopy.Options {
	return treecopy.Options{
		Recursive:     f.recursive,
		Parallel:      parallel,
		Continue:      f.resume,
		Unchanged:     treecopy.Unchanged(f.unchanged),
		PreserveMode:  f.preserve,
		Umask:         umask(),
		PreserveTimes: f.preserve,
		Links:         treecopy.Links(f.links),
		Sparse:        f.sparse,
		Limit:         int64(f.limit),
		Verify:        f.verify,
		Durable:       f.fsync,
		InPlace:       f.inPlace,
		DryRun:        f.dryRun,
		Fatal: func(err error) bool {
			return errors.Is(err, sftp.ErrConnectionLost) || errors.Is(err, sftp.ErrClientClosed) || errors.Is(err, store.ErrNoSpace) ||
				errors.Is(err, web.ErrClientLost) || errors.Is(err, web.ErrClientLogin)
		},
	}
}

// umask returns the bits that new files do not get. What it says of reading
// holds for the right to execute too, which new files of programs never have and
// copies may.
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
func (u *unchangedFlag) Type() string { return "how" }

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
func (l *linksFlag) Type() string { return "what" }

// flagsOf is the annotation of a flag that not all protocols have: those that do.
const flagsOf = "protocol"

// addFor has a set of flags added for some protocols.
func addFor(cmd *cobra.Command, add func(*cobra.Command), of ...protocol) {
	var names []string
	for _, p := range of {
		names = append(names, p.String())
	}
	before := map[string]bool{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { before[f.Name] = true })
	add(cmd)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !before[f.Name] {
			_ = cmd.Flags().SetAnnotation(f.Name, flagsOf, names)
		}
	})
}

// onlyFlagsOf refuses flags that the protocol does not have.
func onlyFlagsOf(p protocol, cmd *cobra.Command) error {
	var wrong []string
	other := ""
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if of := f.Annotations[flagsOf]; len(of) > 0 && !slices.Contains(of, p.String()) {
			wrong = append(wrong, "--"+f.Name)
			other = strings.Join(of, " and ")
		}
	})
	if len(wrong) == 0 {
		return nil
	}
	return usagef("%s: a flag of %s, which %s does not have", strings.Join(wrong, ", "), other, p)
}

// flagSections has the help text show the flags of each protocol apart.
func flagSections(cmd *cobra.Command) {
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		out := cmd.OutOrStderr()
		fmt.Fprintf(out, "Usage:\n  %s\n", cmd.UseLine())
		if cmd.HasExample() {
			fmt.Fprintf(out, "\nExamples:\n%s\n", cmd.Example)
		}
		for _, title := range []string{"", "SFTP and HTTP", ofSFTP.String(), ofHTTP.String(), ofTFTP.String()} {
			set := pflag.NewFlagSet(title, pflag.ContinueOnError)
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if strings.Join(f.Annotations[flagsOf], " and ") == title {
					set.AddFlag(f)
				}
			})
			if title != "" {
				title = " of " + title
			}
			fmt.Fprintf(out, "\nFlags%s:\n%s", title, set.FlagUsages())
		}
		return nil
	})
}
