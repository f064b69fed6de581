// Package treecopy copies files and whole trees from one [store.Tree] to another. Both trees may be
// on servers. This program copies the logs of a server to a directory:
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
// A file gets its name in the target only when it is complete. Many files are copied at the same
// time, so that small files do not wait for each other's round trips. A large file is copied by the
// fastest method that both sides support ([store.RemoteFile], [store.Filler]).
//
// # Stability
//
// Exported names do not change within a minor version, such as 0.9. Before version 1.0, a new minor
// version may change them: see https://github.com/haul-project/haul/blob/main/docs/versions.md.
// Structs may get more fields at any time, so composite literals must use field names.
//
// # Patterns
//
// The name of a source may be a pattern, whose elements are separated by slashes. In an element,
// "*", "?", "[...]" and "\" have the same meaning as in [path.Match]. The element "**" stands for
// any number of directories, including zero; at the end of a pattern it stands for all names below.
// Names that begin with a dot are matched only by an element that begins with a dot, and "**" does
// not enter directories with such names. "**" does not follow symbolic links; other elements do. A
// pattern that ends in a slash matches only directories, and symbolic links to directories.
//
// A [Filter] excludes files of the directories that are copied.
//
// # Where files go
//
// The rules are the same as for cp and scp:
//
//   - If the target is a directory, or ends in a slash, sources go below it. Each keeps the last
//     element of its name. A target that ends in a slash is created if it is missing.
//   - Otherwise the only source becomes the target itself. Several sources need a directory.
//   - With Options.Continue, a directory that became the target itself is recognized until it is
//     copied completely: copied again, the same source does not go below it, but becomes the target
//     again, unless the target ends in a slash.
//   - A source that ends in "/." is a directory of which only the contents go below the target. A
//     source that ends in a slash must be a directory; apart from that, the slash has no effect.
//   - If two sources would get the same name, the copy is refused before anything is copied. A
//     source whose ".." leads out of its tree is refused, too.
//   - A file does not replace a directory, and a directory does not replace a file, except with
//     Options.Delete.
//
// # A hostile peer
//
// Names in a listing are not trusted. If a name is empty, is "." or "..", or contains a slash or a
// NUL, its entry is an error. The same applies to a name that the target cannot have, such as one
// with a backslash on Windows. If several files and directories have the same name, or names that
// differ only in case while the target ignores case, the first one is copied and the others are
// errors. Nothing below the target is written through a symbolic link, whether an earlier copy made
// the link or it was created meanwhile: if the target can open a part of itself (Sub of
// [store.Capabilities]), the copy uses only that part. Symbolic links are made only on request,
// with their text unchanged, and after everything else.
//
// # Deletions
//
// With Options.Delete, the target becomes the same as the source: entries that the source does not
// have are removed. This happens after everything is copied, and only if nothing has failed. A
// directory of the source that cannot be listed completely counts as failed, so an incomplete
// listing does not remove anything by mistake. Each name is looked up in the source before it is
// removed. Nothing is removed through a symbolic link.
//
// # Errors
//
// If one file fails, the copy continues with the others. [Copy] then returns an [*IncompleteError],
// which wraps the first errors.
package treecopy

import (
	"fmt"
	"io/fs"
	"time"

	"github.com/haul-project/haul/store"
)

// A Source says which files to copy from a tree.
type Source struct {
	Tree store.Tree

	// Name is a name in the tree, or a pattern. It is cleaned first, so "./a" and "a//b/" are
	// valid; "" and "." are the root of the tree.
	//
	// If an entry has exactly this name, it is used, even if the name looks like a pattern. A
	// pattern that matches nothing is an fs.ErrNotExist.
	Name string

	// As is the name of the copy, if the source goes below the target; "" means the last element of
	// Name. For the root, which has no name, "" means that only its contents are copied. As has no
	// effect if Name is a pattern.
	As string

	// Origin identifies the tree, for example by a server with its user, or by the path of a
	// directory. Continue uses it to recognize the source of an earlier copy. Trees with the same
	// Origin, even "", count as the same tree.
	Origin string

	// Shown is the name of the source in messages, for example the path that the user gave; ""
	// means Name. Names of entries below the source begin with it too. Shown has no effect if Name
	// is a pattern.
	Shown string
}

// A Job describes a copy: its sources, its target and its options.
type Job struct {
	Sources []Source
	To      store.Tree
	Origin  string // identifies To, like [Source].Origin; if it is set, nothing is copied to itself
	Target  string // a name in To, not a pattern; "" and "." are the root of To
	Options Options
	Hooks   Hooks
}

// These are limits, and defaults for fields of [Options] that are zero.
const (
	MaxParallel    = 64
	DefaultMaxDirs = 4_000_000

	defaultParallel = 8
)

// Options says how to copy. The zero value copies single files, without their attributes.
type Options struct {
	// Recursive copies directories. Without it, a source that is a directory is an error.
	Recursive bool

	// MaxDirs is the largest number of directories in one copy; 0 means DefaultMaxDirs. If there
	// are more, the whole copy ends with an error. Without this limit, a copy would never end if a
	// server invents directories, or if the links of a tree form a circle.
	MaxDirs int64

	// Parallel is the largest number of files that are copied, and of directories that are listed,
	// at the same time. Larger values than MaxParallel count as MaxParallel. 0 means 8 large files
	// and, in addition, 64 small files of up to 128 KiB each. If the round trip is long, up to 512
	// small files are copied (see [store.Distance]).
	Parallel int

	// Continue resumes a copy that was interrupted. If the copy of a file is interrupted, its data
	// is kept in a temporary file, together with a record of the source's version, even after the
	// process has exited. Before a file is resumed, the last bytes of its kept data are compared
	// with the source, or all of it if the source's server can compute hashes. If the size or the
	// time of the source has changed, the file is copied from the start. A complete file is left
	// alone if it has the size and, to the second, the time of its source, as after a copy with
	// PreserveTimes (see [store.Features].OwnTimes). It is also left alone if it has the same size,
	// and both sides can compare the contents without transferring them, and they are equal. All
	// other files are copied again.
	//
	// A directory that becomes the target itself contains a checkpoint until everything is copied:
	// an empty file whose name is .haul-, followed by 26 letters and digits, and .record. If the
	// checkpoint cannot be made, a later copy does not recognize the directory.
	//
	// Without Continue, an interrupted copy leaves nothing behind. If the process is killed, the
	// next copy to the same directory removes its leftovers, if the target has RemoveLeftovers (see
	// [store.Capabilities]).
	Continue bool

	// Unchanged says which files need not be copied. With PreserveMode and PreserveTimes, they
	// still get the modes and the times of their sources.
	Unchanged Unchanged

	// PreserveMode gives files and directories the permission bits of their sources; other bits
	// (setuid, setgid, sticky) are never copied. Without it, new entries get the source's
	// permission bits without those in Umask, and replaced entries keep their own.
	PreserveMode bool

	// Umask holds the permission bits that new files and directories do not get; 0 means 0o022.
	Umask fs.FileMode

	// PreserveTimes gives files and directories the access and modification times of their sources.
	// Without it, they get the time of the copy. With PreserveTimes or PreserveMode, an existing
	// directory keeps its own values if the target refuses to change them; this is not an error,
	// but is counted in [Result].Kept.
	PreserveTimes bool

	// FileTimes is like PreserveTimes, but only for files and symbolic links.
	FileTimes bool

	// Filter excludes files of the directories that are copied. Its rules apply to names relative
	// to the source. The sources themselves are copied regardless of the rules. A directory that is
	// excluded, but contains files that are included, is made when the first of these files is
	// copied.
	Filter *Filter

	// NoClobber leaves existing entries of the target unchanged.
	NoClobber bool

	// Update leaves a file of the target unchanged if its modification time, in seconds, is later
	// than the source's. In a target with [store.Features].OwnTimes, the modification time is the
	// time of the upload.
	Update bool

	// Delete, if set, removes the entries of the target that the source does not have. There must
	// be a single source, a directory whose contents go to the target, and NoClobber must not be
	// set. If a file has only been renamed in the source, it is renamed in the target too, provided
	// that both sides can compare the contents without transferring them.
	Delete *Deletion

	// Links says how symbolic links below a source are treated. If a source itself is a link, it is
	// always followed.
	Links Links

	// Sparse leaves holes instead of writing zeros, if the target supports holes, and does not
	// check for free space. Holes of a local source are not even read.
	Sparse bool

	// Limit is the highest rate of all files together, in bytes per second; 0 means no limit.
	Limit int64

	// Verify compares each file with its source after it is copied; if the target supports that,
	// before the file gets its name. It uses a hash that a server computes, if possible, and
	// otherwise reads the file again. Files that count as unchanged by their size or time are
	// compared too, and copied if they differ.
	Verify bool

	// Durable waits until each file is on the disk of the target. Without it, files that were
	// copied shortly before a power failure may be lost.
	Durable bool

	// InPlace writes directly to the target file. It is for file systems that lack room for a
	// second copy, and for files that must keep their other names or their owner. Readers see the
	// file while it grows, and if the copy fails, an incomplete file remains. With Continue, the
	// next copy resumes such a file if both sides can compare all of its data without transferring
	// it. Otherwise it starts again, because the data may have gaps.
	InPlace bool

	// DryRun examines everything, but changes nothing. The hooks are called as in a real copy.
	DryRun bool

	// Fatal, if set, reports whether an error, such as a lost connection, must end the whole copy.
	Fatal func(error) bool

	// Replaced, if set, reports whether an error means that another version replaced the source
	// during the copy. The file is then copied from the start, at most twice. The last time, it is
	// read as one stream, if its tree has OpenStream (see [store.Capabilities]).
	Replaced func(error) bool
}

// A Deletion says which entries [Options].Delete removes. Entries that Options.Filter excludes are
// removed only if Excluded is set. A directory that contains an entry which stays is not removed.
// The zero value removes nothing.
type Deletion struct {
	// Max is the largest number of files, symbolic links and directories that may be removed; a
	// negative value means any number. If more would have to be removed, nothing is, and Copy
	// returns ErrTooManyDeletions.
	Max int64

	// Excluded also removes entries that Options.Filter excludes.
	Excluded bool

	// EmptySource allows deletions if the source has no entries at all. Without it, Copy returns
	// ErrEmptySource in that case, because the source may be a file system that is not mounted.
	EmptySource bool
}

// fileTimes reports whether files and symbolic links get the times of their sources.
func (o *Options) fileTimes() bool { return o.PreserveTimes || o.FileTimes }

// Unchanged says which files count as unchanged, so that they are not copied.
type Unchanged int

// These are the values of [Unchanged].
const (
	Never Unchanged = iota // no file counts as unchanged: everything is copied
	// SizeAndTime is for files with the same size and modification time, to the second. Use it with
	// PreserveTimes, and a target that keeps times.
	SizeAndTime
	Hash // files with the same size and the same SHA-256, or another hash that both sides can compute
	Size // files with the same size
)

// Links says how symbolic links are treated.
type Links int

// The ways to treat symbolic links.
const (
	SkipLinks Links = iota // leave out symbolic links, and count them
	KeepLinks              // make symbolic links with the same text in the target
	// FollowLinks copies the files and directories that links lead to, except for a directory that
	// contains the link.
	FollowLinks
)

// Hooks are functions that a copy calls as it proceeds. Each may be nil. Several goroutines may
// call them at the same time, and a slow hook delays the copy. All calls for one entry get the same
// *Item, which does not change.
type Hooks struct {
	// Found is called while the sources are listed, and once more when the listing is complete.
	Found func(Totals)

	// Started is called just before a file is copied.
	Started func(*Item)

	// Progress is called when n more bytes of a file are in the target. If n is negative, bytes
	// that were reported before had to be discarded. Bytes from an earlier copy are reported at
	// once.
	Progress func(i *Item, n int64)

	// FromStart is called if Options.Continue cannot resume a file, or could not resume it if the
	// copy were interrupted now. The error is the reason, for example ErrChanged.
	FromStart func(*Item, error)

	// Ended is called once for each entry, whether it was started or not. For a directory, it is
	// called when the directory is made, and once more if something in it fails later.
	Ended func(*Item, Outcome)
}

// Totals says how much there is to copy, as far as the listings have shown.
type Totals struct {
	Files int64
	Bytes int64 // total size of the files, according to the listings
	All   bool  // the listing is complete, so the totals are final
}

// An Item describes an entry to the hooks.
type Item struct {
	From string      // name in the tree of its source
	As   string      // name for messages; "" means From: see [Source].Shown
	To   string      // name in the tree of the target
	Of   int         // index of its source in [Job].Sources
	Type fs.FileMode // 0 for a file; otherwise ModeDir, ModeSymlink, ModeIrregular and so on
	Size int64       // size of a file in bytes, according to the listing
	Time time.Time   // modification time; zero if unknown

	// Extra means that the Item is an entry of the target that is to be deleted. From is the name
	// that it would have in the source.
	Extra bool
}

// shown returns the item's name for messages.
func (i *Item) shown() string {
	if i.As != "" {
		return i.As
	}
	return i.From
}

// An Outcome is the result for one entry.
type Outcome struct {
	What     What
	Bytes    int64 // number of bytes that were transferred
	Resumed  int64 // number of bytes that were there already, from an earlier copy
	Verified bool
	Cloned   bool   // the server made the copy: see Clone of [store.Capabilities]
	Was      string // old name in the tree of the target, if What is Moved
	Err      error  // the error if What is Failed or Unfinished; the reason if What is Skipped or Existing
}

// A What is the kind of an [Outcome].
type What int

// These are the outcomes of an entry. A dry run reports the outcomes that a real copy would have.
const (
	Copied  What = iota // a file or a symbolic link was copied
	Made                // a directory was missing, and was made
	Present             // a directory existed already
	Same                // a file was unchanged, so it was not copied
	// Skipped means that a symbolic link, a device or a similar entry was left out (see [Options]),
	// or a directory (see [store.Features].ImpliedDirs).
	Skipped
	Failed
	Unfinished // the entry was in progress when the copy ended; Outcome.Err is its error
	Existing   // a file was left unchanged: see [Options].NoClobber and Update
	Moved      // a file had another name in the target, and was renamed
	Deleted    // an entry of the target was deleted: see [Item].Extra
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
	Copied  int64 // files and symbolic links that were copied
	Same    int64 // files that were unchanged
	Skipped int64 // symbolic links, devices and similar entries that were left out
	Made    int64 // directories that were made
	Failed  int64

	Excluded int64 // entries that Options.Filter excluded, in the directories that were listed
	Existing int64 // files that were left unchanged: see Options.NoClobber and Update
	Moved    int64 // files of the target that were renamed
	Deleted  int64 // files, symbolic links and directories of the target that were deleted

	// Undeleted counts the entries that should have been deleted, including everything in them, but
	// were not, because something failed.
	Undeleted int64

	// Kept counts the existing directories that kept their permissions and times because the target
	// refused to change them.
	Kept int64

	// Left counts the files that were found but neither completed nor failed: the copy ended before
	// their turn, or while they were being copied. There may be more files that were not found by
	// then.
	Left int64

	// Bytes counts the bytes that were transferred, and Resumed the bytes that earlier copies had
	// transferred. Both include only files that were copied, or were in progress when the copy
	// ended.
	Bytes, Resumed int64

	Found Totals
}
