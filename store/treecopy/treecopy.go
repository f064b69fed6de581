// Package treecopy copies files and whole trees from one [store.Tree] to another. Either of them
// may be remote. This program copies the logs of a server to a directory:
//
//	client, err := sftpclient.Dial(ctx, "host:22", login, sftpclient.Config{})
//	...
//	root, err := os.OpenRoot(".")
//	...
//	result, err := treecopy.Copy(ctx, treecopy.Job{
//		Sources: []treecopy.Source{{Tree: client.Store("/"), Name: "var/log/*.log"}},
//		To:      localdir.New(root),
//		Target:  "logs/",
//		Options: treecopy.Options{Recursive: true, PreserveTimes: true},
//	})
//
// A file has its name when it is whole, and not before. Many files are on their
// way at once, so that small ones do not wait for each other's round trips, and
// a large one goes by the fastest way that its two ends offer ([store.RemoteFile],
// [store.Filler]).
//
// # Stability
//
// Exported names stay within a minor version, such as 0.9. Until 1.0 a new minor version may change
// them: see https://github.com/haul-project/haul/blob/main/docs/versions.md. Structs may get more
// fields at any time, so composite literals must name theirs.
//
// # Patterns
//
// The name of a source may be a pattern. Its elements are separated by slashes. In an element
// "*", "?", "[...]" and "\" are as in [path.Match]. The element "**" stands for any number of
// directories, zero included; at the end of a pattern it stands for all names below. Only an
// element that begins with a dot matches names that begin with a dot, and "**" does not enter such
// directories. "**" follows no symbolic link; other elements do. A pattern that ends in a slash
// matches directories, and symbolic links to directories, only.
//
// A [Filter] excludes files of directories that are copied.
//
// # Where files go
//
// As with cp and scp:
//
//   - If the target is a directory, or ends in a slash, sources go below it, each by the last
//     element of its name. A target that ends in a slash is made if it is missing.
//   - Otherwise the one source becomes the target. Several sources need a directory.
//   - With Options.Continue, a directory that became the target is recognized until all of it is
//     copied: the same source becomes it again instead of going below it, unless the target ends
//     in a slash.
//   - A source that ends in "/." is a directory whose contents, and not the directory itself, go
//     below the target. A source that ends in a slash must be a directory; the slash has no other
//     meaning.
//   - Two sources that would become the same name are refused before anything is copied. A source
//     whose ".." leads out of its tree is refused, too.
//   - A file does not replace a directory, nor a directory a file, except with Options.Delete.
//
// # A hostile peer
//
// Names in a listing are data. One that is empty, "." or "..", or has a slash or
// a NUL in it is an error of that entry, and so is one that the target cannot
// have, such as one with a backslash on Windows. Of files and directories that
// have one name, or that differ in case only where the target takes no notice of
// that, the first is copied, and the others are errors. Below the target no symbolic
// link is written through, be it from an earlier copy or put there meanwhile: a
// target that can open a part of itself (Sub of [store.Capabilities]) is used through that part
// alone. Symbolic links are made only if they are asked for, with their text as
// it is, and after all else.
//
// # Deletions
//
// With Options.Delete the target becomes what the source is: entries that the source does not have
// are removed. That happens after all copies, and only if nothing has failed. A directory of the
// source that cannot be listed to its end has failed, so a short listing removes nothing by
// mistake. The source is asked for each name before it is removed. Nothing is removed through a
// symbolic link.
//
// # Errors
//
// An error of one file does not stop the others. [Copy] then returns an [*IncompleteError], which
// wraps the first errors.
package treecopy

import (
	"fmt"
	"io/fs"
	"time"

	"github.com/haul-project/haul/store"
)

// A Source is what to copy.
type Source struct {
	Tree store.Tree

	// Name is a name in the tree, or a pattern. It is cleaned first, so "./a"
	// and "a//b/" are good; "" and "." are the root.
	//
	// An entry with exactly this name is used even if the name looks like a
	// pattern. A pattern that matches nothing is an fs.ErrNotExist.
	Name string

	// As is what the source is called below a directory; "" means the last
	// element of its name. For the root, which has none, "" stands for its
	// contents. It is of no use with a pattern.
	As string

	// Origin identifies the tree, for Continue to know the source of an earlier
	// copy again: such as a server with its user, or the path of a directory. Two
	// trees of the same origin, such as "", are taken for one.
	Origin string

	// Shown is what messages call the source, such as the path that the user has
	// named: "" means its name. Entries below it are shown below that. It is of
	// no use with a pattern.
	Shown string
}

// A Job says what to copy where.
type Job struct {
	Sources []Source
	To      store.Tree
	Origin  string // identifies To, as [Source].Origin does; what is in To is not copied to itself then
	Target  string // a name in To; "" and "." are its root. It is no pattern.
	Options Options
	Hooks   Hooks
}

// The defaults of fields of [Options] that are zero, and bounds.
const (
	DefaultParallel = 8
	MaxParallel     = 64
	DefaultMaxDirs  = 4_000_000
)

// Options say how to copy. The zero value copies single files as they come.
type Options struct {
	// Recursive copies directories. Without it a directory is an error.
	Recursive bool

	// MaxDirs is how many directories one copy has at most; 0 means
	// DefaultMaxDirs. Beyond that the whole copy ends by ErrTooManyDirs, as one
	// from a server that makes up directories, or whose links lead in a circle,
	// would have no other end.
	MaxDirs int64

	// Parallel is how many files are on their way at once at most, and how many
	// directories are listed at once; more than MaxParallel means that. 0 means
	// DefaultParallel large files, and besides them small ones, of up to 128 KiB: 64, or
	// up to MaxSmall where the round trip is long (see [store.Distance]).
	Parallel int

	// Continue resumes a copy that was cut off. The part of a file that is there is
	// kept out of sight with a record of which content it is, which outlives the
	// process; its last bytes are compared with the source first, or all of them
	// where the source's server can hash. A source that has another size or time by
	// now is copied anew. A file that is there as a whole is left alone if it has
	// the size and, to the second, the time of its source, as a copy with
	// PreserveTimes leaves it (see [store.Features].OwnTimes), or if it has the size and both
	// sides can compare the content without moving it, and it is the same. All
	// others are copied again.
	//
	// A directory that becomes the target has a checkpoint in it until all is copied: an
	// empty file named .haul-, 26 letters and digits, and .record. Where that cannot be
	// made, another copy does not recognize the directory.
	//
	// Without Continue an interrupted copy leaves nothing behind. If its process is
	// killed, the next copy to the same directory removes what is left, if the
	// target has RemoveLeftovers (see [store.Capabilities]).
	Continue bool

	// Unchanged says which files need not be copied. With PreserveMode and
	// PreserveTimes they have mode and times of their sources nevertheless.
	Unchanged Unchanged

	// PreserveMode gives files and directories the permission bits of their
	// sources; bits beyond those (setuid, setgid, sticky) are never copied.
	// Without it, what is new gets those bits less Umask, and what is replaced
	// keeps its own.
	PreserveMode bool

	// Umask are the bits that new files and directories do not get: 0 means
	// 0o022.
	Umask fs.FileMode

	// PreserveTimes gives files and directories the access and modification
	// time of their sources; without it they have that of the copy. As with
	// PreserveMode, a directory that was there keeps its own where the target
	// refuses to change them: that is no error, and counted as [Result].Kept.
	PreserveTimes bool

	// FileTimes does so for files and symbolic links alone.
	FileTimes bool

	// Filter excludes files of directories that are copied. Its rules match names below the
	// source. A source that is named is copied whatever the rules say. An excluded directory
	// with included files is made with the first of these.
	Filter *Filter

	// NoClobber leaves what has a name in the target as it is.
	NoClobber bool

	// Update leaves files of the target as they are that have a later modification time than
	// their source, in seconds. In a target with [store.Features].OwnTimes that is the time of the
	// upload.
	Update bool

	// Delete, if set, removes from the target what the source does not have. It takes one
	// source, a directory whose contents go to the target, and excludes NoClobber. A
	// file that the source has under another name now is renamed in the target, where both
	// sides can compare the content without moving it.
	Delete *Deletion

	// Links says what becomes of symbolic links below a source. A source that
	// is named is followed itself.
	Links Links

	// Sparse leaves out what is zeros, where the target can have holes, and does
	// not set space aside. Holes of a local source are not even read.
	Sparse bool

	// Limit is the most bytes a second of all files together; 0 means none.
	Limit int64

	// Verify compares each file with its source after it was copied and, where
	// the target can, before it has its name: by the hash that a server
	// computes, if it offers that, else by reading it again. Files taken to be
	// unchanged by their size or time are compared as well, and copied if they differ.
	Verify bool

	// Durable waits for each file until it is on the target's disk. Without
	// it, what was copied in the moments before a power failure may be lost.
	Durable bool

	// InPlace writes to the target itself, for file systems without room for
	// two, and for a file that has other names or an owner to keep. Readers see it
	// grow, and a copy that fails leaves a part. With Continue the next copy resumes
	// behind that, if both sides can compare all of it without moving it; else it
	// begins anew, as a part may have gaps.
	InPlace bool

	// DryRun looks at everything and changes nothing. The hooks are called as if
	// it did.
	DryRun bool

	// Fatal, if set, says of an error that there is no point in continuing, such
	// as a connection that is lost.
	Fatal func(error) bool

	// Replaced, if set, says of an error that the source has been replaced by
	// another version while it was copied. The file is begun anew then, twice at
	// most, the last time as one stream if its tree has OpenStream (see [store.Capabilities]).
	Replaced func(error) bool
}

// A Deletion says what [Options].Delete removes. Entries that Options.Filter excludes are not removed,
// nor a directory that holds such a file. The zero value removes nothing.
type Deletion struct {
	// Max is how many files, symbolic links and directories are removed at most; below 0
	// means any number. If there are more, none is removed, and Copy returns
	// ErrTooManyDeletions.
	Max int64

	// Excluded removes what Options.Filter excludes, too.
	Excluded bool

	// EmptySource allows deletions if the source has no entries at all. Without it Copy
	// returns ErrEmptySource, as the source may be a file system that is not mounted.
	EmptySource bool
}

// fileTimes reports whether files and symbolic links get the times of their sources.
func (o *Options) fileTimes() bool { return o.PreserveTimes || o.FileTimes }

// Unchanged says which files are taken to be unchanged, and are not copied.
type Unchanged int

// The kinds of unchanged files.
const (
	Never       Unchanged = iota // nothing: all is copied
	SizeAndTime                  // what has the same size and modification time, to the second: of use with PreserveTimes, and a target that keeps times
	Hash                         // what has the same size and SHA-256, or what else both sides can compute
	Size                         // what has the same size
)

// Links says what becomes of symbolic links.
type Links int

// The ways to treat symbolic links.
const (
	SkipLinks   Links = iota // they are left out, and counted
	KeepLinks                // they become symbolic links with the same text
	FollowLinks              // what they lead to is copied in their place; see ErrLoop
)

// Hooks are called as a copy proceeds. Each may be nil. They are called by several
// goroutines at a time, and a slow one holds up the copy. An *Item is the same in
// all calls about one entry, and is not changed.
type Hooks struct {
	// Found is called as the sources are listed, and once more when all is
	// found.
	Found func(Totals)

	// Started is called when a file is about to be copied.
	Started func(*Item)

	// Progress is called when n more bytes of it have come to the target. Bytes
	// that had to be given up again are taken back by a negative n. Bytes that were
	// there from an earlier copy count at once.
	Progress func(i *Item, n int64)

	// FromStart is called when Options.Continue cannot resume a file, or could not if
	// it were cut off now, and says why: an ErrNoVersion, ErrNotKept or ErrChanged.
	FromStart func(*Item, error)

	// Ended is called once for each entry, whether it was started or not. For a
	// directory that is when it is made; it is called again if something in it
	// fails later.
	Ended func(*Item, Outcome)
}

// Totals says how much there is to be copied, as far as it is known.
type Totals struct {
	Files int64
	Bytes int64 // of files, as their directories list them
	All   bool  // there is nothing more to come
}

// An Item is an entry of a source.
type Item struct {
	From string      // its name in the tree of its source
	As   string      // what messages call it; "" means From: see [Source].Shown
	To   string      // its name in the tree of the target
	Of   int         // its source: the index in [Job].Sources
	Type fs.FileMode // 0 for files; else ModeDir, ModeSymlink, ModeIrregular and so on
	Size int64       // of a file, in bytes, as its directory lists it
	Time time.Time   // when it was modified; zero if that is not known

	// Extra says that it is an entry of the target that is to be deleted. From is the name
	// that it would have in the source.
	Extra bool
}

// shown returns what messages call it.
func (i *Item) shown() string {
	if i.As != "" {
		return i.As
	}
	return i.From
}

// An Outcome says what became of an entry.
type Outcome struct {
	What     What
	Bytes    int64 // that were moved
	Resumed  int64 // bytes that were there from an earlier copy
	Verified bool
	Cloned   bool   // the server has copied it: see Clone of [store.Capabilities]
	Was      string // of a Moved file: its old name in the tree of the target
	Err      error  // if What is Failed or Unfinished, or why it is Skipped or Existing
}

// A What is the kind of an [Outcome].
type What int

// The outcomes of an entry. In a dry run it is what would become of it.
const (
	Copied  What = iota // a file, or a symbolic link
	Made                // a directory that was missing
	Present             // a directory that was there
	Same                // a file that is unchanged
	Skipped             // a symbolic link, a device or the like: see [Options]; or a directory: see [store.Features].ImpliedDirs
	Failed
	Unfinished // an entry that was under way when the copy ended; Outcome.Err says how that was noticed
	Existing   // a file that is left alone: see [Options].NoClobber and Update
	Moved      // a file that had another name in the target
	Deleted    // an entry of the target: see [Item].Extra
)

// String returns it in a word.
func (w What) String() string {
	names := [...]string{"copied", "made", "present", "same", "skipped", "failed", "unfinished", "existing", "moved", "deleted"}
	if w < 0 || int(w) >= len(names) {
		return fmt.Sprintf("What(%d)", int(w))
	}
	return names[w]
}

// A Result counts what became of all entries.
type Result struct {
	Copied  int64 // files and symbolic links
	Same    int64 // files that were unchanged
	Skipped int64 // symbolic links, devices and the like
	Made    int64 // directories
	Failed  int64

	Excluded int64 // what Options.Filter excludes in directories that were listed
	Existing int64 // files that were left alone: see Options.NoClobber and Update
	Moved    int64 // files
	Deleted  int64 // files, symbolic links and directories

	// Undeleted counts what was to be deleted, with all that is in it, and is not, as
	// something has failed.
	Undeleted int64

	// Kept counts the directories that were there and keep their permissions and
	// times, as the target does not allow changing them.
	Kept int64

	// Left counts the files that were found, and neither failed nor are done: the
	// copy ended before they were tried, or while they were under way. There
	// may be more that were not found by then.
	Left int64

	// Bytes counts those that were moved, and Resumed those that were there from
	// earlier copies: of files that are copied, or were under way when the copy ended.
	Bytes, Resumed int64

	Found Totals
}
