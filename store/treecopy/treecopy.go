// Package treecopy copies files and whole trees from one [store.Tree] to another. Either tree may
// be remote. This program copies the logs of a server to a directory:
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
// A file gets its name only when it is complete. Many files are copied at once, so that small files
// do not wait for each other's round trips. A large file is copied in the fastest way that both
// ends offer ([store.RemoteFile], [store.Filler]).
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
// matches only directories, and symbolic links to directories.
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
// Names in a listing are untrusted. A name that is empty, "." or "..", or contains a slash or a
// NUL, is an error of that entry. So is a name that the target cannot have, such as one with a
// backslash on Windows. If several files and directories have the same name, or names that differ
// only in case in a target that ignores case, the first is copied and the others are errors.
// Nothing below the target is written through a symbolic link, whether it is from an earlier copy
// or was created meanwhile: a target that can open a part of itself (Sub of [store.Capabilities])
// is used through that part only. Symbolic links are made only on request, with their text
// unchanged, and after everything else.
//
// # Deletions
//
// With Options.Delete the target becomes the same as the source: entries that the source does not
// have are removed. That happens after all copies, and only if nothing has failed. A source
// directory that cannot be listed completely has failed, so a short listing removes nothing by
// mistake. Each name is looked up in the source before it is removed. Nothing is removed through a
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

// A Source names the files to copy.
type Source struct {
	Tree store.Tree

	// Name is a name in the tree, or a pattern. It is cleaned first, so "./a" and "a//b/" are
	// valid; "" and "." are the root.
	//
	// An entry with exactly this name is used even if the name looks like a
	// pattern. A pattern that matches nothing is an fs.ErrNotExist.
	Name string

	// As is the name of the source below a directory; "" means the last element of its name. For
	// the root, which has no name, "" means that its contents are copied. It has no effect with a
	// pattern.
	As string

	// Origin identifies the tree, such as a server with its user, or the path of a directory.
	// Continue uses it to recognize the source of an earlier copy. Trees with equal origins, such
	// as "", are considered the same.
	Origin string

	// Shown is the name of the source in messages, such as the path that the user gave: "" means
	// its name. Entries below it are shown below that. It has no effect with a pattern.
	Shown string
}

// A Job describes a copy: its sources, its target and its options.
type Job struct {
	Sources []Source
	To      store.Tree
	Origin  string // identifies To, as [Source].Origin does; if set, nothing is copied to itself
	Target  string // a name in To, not a pattern; "" and "." are its root
	Options Options
	Hooks   Hooks
}

// The defaults for fields of [Options] that are zero, and bounds.
const (
	MaxParallel    = 64
	DefaultMaxDirs = 4_000_000

	defaultParallel = 8
)

// Options say how to copy. The zero value copies single files, without their attributes.
type Options struct {
	// Recursive copies directories. Without it, a source that is a directory is an error.
	Recursive bool

	// MaxDirs is the largest number of directories of one copy; 0 means DefaultMaxDirs. Beyond it
	// the whole copy ends with an error. Otherwise, a copy from a server that invents directories,
	// or from a tree whose links form a circle, would never end.
	MaxDirs int64

	// Parallel is the largest number of files copied at once, and of directories listed at once; it
	// is limited to MaxParallel. 0 means 8 large files and, in addition, small ones
	// of up to 128 KiB: 64, or up to 512 if the round trip is long (see [store.Distance]).
	Parallel int

	// Continue resumes a copy that was interrupted. The part of a file that was copied is kept in a
	// temporary file, with a record of its content's version that outlives the process. Before a
	// file is resumed, its last bytes are compared with the source, or all of them if the source's
	// server can compute hashes. If the source has another size or time by now, the file is copied
	// from the start. A complete file is left alone if it has the size and, to the second, the time
	// of its source, as after a copy with PreserveTimes (see [store.Features].OwnTimes). It is also
	// left alone if it has the same size, both sides can compare the content without moving it, and
	// the content is the same. All other files are copied again.
	//
	// A directory that becomes the target contains a checkpoint until everything is copied: an
	// empty file named .haul-, 26 letters and digits, and .record. If the checkpoint cannot be
	// made, another copy does not recognize the directory.
	//
	// Without Continue an interrupted copy leaves nothing behind. If its process is killed, the
	// next copy to the same directory removes the leftovers, if the target has RemoveLeftovers (see
	// [store.Capabilities]).
	Continue bool

	// Unchanged says which files need not be copied. With PreserveMode and PreserveTimes they still
	// get the modes and times of their sources.
	Unchanged Unchanged

	// PreserveMode gives files and directories the permission bits of their sources; other bits
	// (setuid, setgid, sticky) are never copied. Without it, new entries get the source's
	// permission bits without those in Umask, and replaced entries keep their own.
	PreserveMode bool

	// Umask holds the bits that new files and directories do not get: 0 means 0o022.
	Umask fs.FileMode

	// PreserveTimes gives files and directories the access and modification times of their sources;
	// without it they have the time of the copy. With PreserveTimes, as with PreserveMode, an
	// existing directory keeps its own values if the target refuses to change them. That is not an
	// error, and is counted in [Result].Kept.
	PreserveTimes bool

	// FileTimes does the same as PreserveTimes, for files and symbolic links only.
	FileTimes bool

	// Filter excludes files of directories that are copied. Its rules match names below the source.
	// A source that is named is copied whatever the rules say. An excluded directory that contains
	// included files is made when the first of them is copied.
	Filter *Filter

	// NoClobber leaves existing entries of the target unchanged.
	NoClobber bool

	// Update leaves a file of the target unchanged if its modification time, in seconds, is later
	// than that of its source. In a target with [store.Features].OwnTimes the modification time is
	// the time of the upload.
	Update bool

	// Delete, if set, removes the entries of the target that the source does not have. It requires
	// a single source, a directory whose contents go to the target, and excludes NoClobber. If the
	// source has a file of the target under another name now, the file is renamed in the target,
	// provided that both sides can compare the content without moving it.
	Delete *Deletion

	// Links says how symbolic links below a source are treated. A link named as a source is always
	// followed.
	Links Links

	// Sparse leaves holes instead of zeros, if the target supports holes, and does not reserve
	// space. Holes of a local source are not even read.
	Sparse bool

	// Limit is the largest rate of all files together, in bytes a second; 0 means no limit.
	Limit int64

	// Verify compares each file with its source after copying and, if the target supports that,
	// before the file gets its name. It uses the hash that a server computes, if available, or else
	// reads the file again. Files that count as unchanged by size or time are compared as well, and
	// copied if they differ.
	Verify bool

	// Durable waits until each file is on the target's disk. Without it, files that were copied
	// shortly before a power failure may be lost.
	Durable bool

	// InPlace writes to the target file itself. It is for file systems without room for a second
	// copy, and for a file that must keep its other names or its owner. Readers see the file grow,
	// and a copy that fails leaves a part of it. With Continue the next copy resumes after that
	// part if both sides can compare all of it without moving it. Otherwise it starts again,
	// because the part may have gaps.
	InPlace bool

	// DryRun examines everything and changes nothing. The hooks are called as in a real copy.
	DryRun bool

	// Fatal, if set, reports whether an error ends the whole copy, such as a lost connection.
	Fatal func(error) bool

	// Replaced, if set, reports whether an error means that another version replaced the source
	// while it was copied. The file is then copied from the start, at most twice. The last time it
	// is read as one stream if its tree has OpenStream (see [store.Capabilities]).
	Replaced func(error) bool
}

// A Deletion says which entries [Options].Delete removes. Entries that Options.Filter excludes are
// not removed unless Excluded is set; nor is a directory that contains such an entry. The zero
// value removes nothing.
type Deletion struct {
	// Max is the largest number of files, symbolic links and directories to remove; a negative
	// value means any number. If there are more, nothing is removed, and Copy returns
	// ErrTooManyDeletions.
	Max int64

	// Excluded also removes entries that Options.Filter excludes.
	Excluded bool

	// EmptySource allows deletions if the source has no entries at all. Without it Copy
	// returns ErrEmptySource, as the source may be a file system that is not mounted.
	EmptySource bool
}

// fileTimes reports whether files and symbolic links get the times of their sources.
func (o *Options) fileTimes() bool { return o.PreserveTimes || o.FileTimes }

// Unchanged says which files count as unchanged, and are not copied.
type Unchanged int

// The kinds of unchanged files.
const (
	Never       Unchanged = iota // no file: everything is copied
	SizeAndTime                  // files with the same size and modification time, to the second: for use with PreserveTimes, and a target that keeps times
	Hash                         // files with the same size and SHA-256, or another hash that both sides can compute
	Size                         // files with the same size
)

// Links says how symbolic links are treated.
type Links int

// The ways to treat symbolic links.
const (
	SkipLinks   Links = iota // leave them out, and count them
	KeepLinks                // make symbolic links with the same text
	FollowLinks              // copy their targets in place of the links, except directories that contain the link
)

// Hooks are called as a copy proceeds. Each may be nil. Several goroutines may call them at a time,
// and a slow hook holds up the copy. All calls about one entry get the same *Item, which does not
// change.
type Hooks struct {
	// Found is called while the sources are listed, and once more when the listing is complete.
	Found func(Totals)

	// Started is called when a file is about to be copied.
	Started func(*Item)

	// Progress is called when n more bytes of a file are in the target. A negative n takes back
	// bytes that had to be discarded. Bytes from an earlier copy count at once.
	Progress func(i *Item, n int64)

	// FromStart is called when Options.Continue cannot resume a file, or could not resume it if the
	// copy were interrupted now. The error is the reason, such as ErrChanged.
	FromStart func(*Item, error)

	// Ended is called once for each entry, whether it was started or not. For a directory, it is
	// called when the directory is made, and again if something in it fails later.
	Ended func(*Item, Outcome)
}

// Totals says how much there is to copy, as far as it is known.
type Totals struct {
	Files int64
	Bytes int64 // of files, according to the listings
	All   bool  // the totals are final
}

// An Item is an entry of a source.
type Item struct {
	From string      // name in the tree of its source
	As   string      // name in messages; "" means From: see [Source].Shown
	To   string      // name in the tree of the target
	Of   int         // index of its source in [Job].Sources
	Type fs.FileMode // 0 for files; else ModeDir, ModeSymlink, ModeIrregular and so on
	Size int64       // of a file, in bytes, according to the listing
	Time time.Time   // modification time; zero if unknown

	// Extra means that the Item is an entry of the target that is to be deleted. From is the name
	// that it would have in the source.
	Extra bool
}

// shown returns the name for messages.
func (i *Item) shown() string {
	if i.As != "" {
		return i.As
	}
	return i.From
}

// An Outcome is the result for one entry.
type Outcome struct {
	What     What
	Bytes    int64 // bytes that were transferred
	Resumed  int64 // bytes that were there from an earlier copy
	Verified bool
	Cloned   bool   // the server made the copy: see Clone of [store.Capabilities]
	Was      string // of a Moved file: its old name in the tree of the target
	Err      error  // if What is Failed or Unfinished, or why it is Skipped or Existing
}

// A What is the kind of an [Outcome].
type What int

// The outcomes of an entry. A dry run reports the outcomes of a real copy.
const (
	Copied  What = iota // a file, or a symbolic link
	Made                // a directory that was missing
	Present             // a directory that existed
	Same                // a file that is unchanged
	Skipped             // a symbolic link, a device or a similar entry: see [Options]; or a directory: see [store.Features].ImpliedDirs
	Failed
	Unfinished // an entry that was under way when the copy ended; Outcome.Err is the error that it got
	Existing   // a file that is left unchanged: see [Options].NoClobber and Update
	Moved      // a file that had another name in the target
	Deleted    // an entry of the target: see [Item].Extra
)

// String returns the outcome as one word.
func (w What) String() string {
	names := [...]string{"copied", "made", "present", "same", "skipped", "failed", "unfinished", "existing", "moved", "deleted"}
	if w < 0 || int(w) >= len(names) {
		return fmt.Sprintf("What(%d)", int(w))
	}
	return names[w]
}

// A Result counts the outcomes of all entries.
type Result struct {
	Copied  int64 // files and symbolic links
	Same    int64 // files that were unchanged
	Skipped int64 // symbolic links, devices and similar entries
	Made    int64 // directories
	Failed  int64

	Excluded int64 // entries that Options.Filter excludes in the listed directories
	Existing int64 // files that were left unchanged: see Options.NoClobber and Update
	Moved    int64 // files
	Deleted  int64 // files, symbolic links and directories

	// Undeleted counts the entries that should be deleted, with everything in them, but were not
	// deleted because something failed.
	Undeleted int64

	// Kept counts the existing directories that keep their permissions and times because the target
	// does not allow changing them.
	Kept int64

	// Left counts the files that were found but have neither failed nor been completed: the copy
	// ended before it tried them, or while they were under way. There may be more files, which had
	// not been found by then.
	Left int64

	// Bytes counts the bytes that were transferred, and Resumed the bytes from earlier copies. Both
	// count files that were copied, or were under way when the copy ended.
	Bytes, Resumed int64

	Found Totals
}
