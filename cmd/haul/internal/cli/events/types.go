package events

import (
	"io/fs"
	"time"
	"unicode/utf8"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
)

// An Event is a pointer to one of this package's event types. docs/json.md describes their fields.
type Event interface {
	name() string
	stamp(event string, now time.Time)
}

// head holds the fields that all events have.
type head struct {
	Event string    `json:"event"`
	Time  time.Time `json:"time"`
}

func (h *head) stamp(event string, now time.Time) {
	h.Event, h.Time = event, now.UTC().Truncate(time.Millisecond)
}

// start is the first event of a command.
type start struct {
	head
	Version      int      `json:"version"`
	Command      string   `json:"command"`
	Sources      []string `json:"sources"`
	SourcesBytes [][]byte `json:"sources_bytes,omitempty"`
	To           string   `json:"to,omitempty"`
	ToBytes      []byte   `json:"to_bytes,omitempty"`
	DryRun       bool     `json:"dry_run"`
}

func (*start) name() string { return "start" }

// Found says that all files to be copied have been listed.
type Found struct {
	head
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}

func (*Found) name() string { return "found" }

// Progress reports the progress of a copy.
type Progress struct {
	head
	Files      int64     `json:"files"` // number of files that are complete
	Bytes      int64     `json:"bytes"` // bytes that were copied, or were present already
	TotalFiles int64     `json:"total_files"`
	TotalBytes int64     `json:"total_bytes"`
	Final      bool      `json:"final"` // set once all files are listed, so that the totals do not change any more
	Rate       int64     `json:"rate"`
	Remaining  *float64  `json:"remaining,omitempty"` // estimated remaining time, in seconds; nil if it is unknown
	Active     int       `json:"active"`              // number of files that are being copied
	Current    []Current `json:"current"`             // some of the files that are being copied
}

func (*Progress) name() string { return "progress" }

// Current describes a file that is being copied, and its progress.
type Current struct {
	Path      string `json:"path"`
	PathBytes []byte `json:"path_bytes,omitempty"`
	Bytes     int64  `json:"bytes"`
	Size      *int64 `json:"size,omitempty"`
}

// NewCurrent returns the progress of a file. A size of 0 or less means that the size is unknown.
func NewCurrent(path string, bytes, size int64) Current {
	return Current{Path: path, PathBytes: exactBytes(path), Bytes: bytes, Size: knownSize(size)}
}

// An Entry holds the common fields of all events about one file, directory or symbolic link.
type Entry struct {
	Path      string `json:"path"`
	PathBytes []byte `json:"path_bytes,omitempty"`
	To        string `json:"to,omitempty"`
	ToBytes   []byte `json:"to_bytes,omitempty"`
	Type      string `json:"type"`
	Size      *int64 `json:"size,omitempty"`
}

// NewEntry describes the entry at path, which is copied to the name `to`. If nothing is copied, `to`
// is "".
func NewEntry(path, to string, t fs.FileMode) Entry {
	return Entry{Path: path, PathBytes: exactBytes(path), To: to, ToBytes: exactBytes(to), Type: console.TypeName(t)}
}

// Sized returns the entry with the size of the file. A negative size means that the size is
// unknown.
func (e Entry) Sized(size int64) Entry {
	if size >= 0 {
		e.Size = &size
	}
	return e
}

// exactBytes returns the bytes of a name that is not UTF-8, because a JSON string cannot represent
// it. For other names it returns nil.
func exactBytes(name string) []byte {
	if utf8.ValidString(name) {
		return nil
	}
	return []byte(name)
}

// knownSize returns a pointer to a size, or nil if the size is not above 0, which means unknown.
func knownSize(size int64) *int64 {
	if size <= 0 {
		return nil
	}
	return &size
}

// File says that a file is about to be copied.
type File struct {
	head
	Entry
}

func (*File) name() string { return "file" }

// Copied says that a file was copied completely and has its final name, or that a symbolic link was
// made.
type Copied struct {
	head
	Entry
	Bytes    int64   `json:"bytes"` // bytes transferred
	Resumed  int64   `json:"resumed,omitempty"`
	Verified bool    `json:"verified,omitempty"`
	Seconds  float64 `json:"seconds"`
	Packets  int64   `json:"packets,omitempty"` // Packets and Resent are set only for TFTP
	Resent   int64   `json:"resent,omitempty"`
	DryRun   bool    `json:"dry_run,omitempty"`
}

func (*Copied) name() string { return "copied" }

// Made says that a directory has been made.
type Made struct {
	head
	Entry
	DryRun bool `json:"dry_run,omitempty"`
}

func (*Made) name() string { return "made" }

// Unchanged says that a file was not copied, because the target contains it already.
type Unchanged struct {
	head
	Entry
	Verified bool `json:"verified,omitempty"` // the contents were compared, and not only the size and the time
}

func (*Unchanged) name() string { return "unchanged" }

// Skipped says that an entry was left out, and why.
type Skipped struct {
	head
	Entry
	Reason string `json:"reason"`
}

func (*Skipped) name() string { return "skipped" }

// Removed says that an entry has been removed.
type Removed struct {
	head
	Entry
	DryRun bool `json:"dry_run,omitempty"`
}

func (*Removed) name() string { return "removed" }

// Renamed says that a file in the target was renamed, because it has been renamed in the source.
type Renamed struct {
	head
	Entry
	Was      string `json:"was"` // the old name, in the same form as Entry.To
	WasBytes []byte `json:"was_bytes,omitempty"`
	DryRun   bool   `json:"dry_run,omitempty"`
}

// NewRenamed returns the event for a file whose old name in the target is `was`.
func NewRenamed(e Entry, was string, dryRun bool) *Renamed {
	return &Renamed{Entry: e, Was: was, WasBytes: exactBytes(was), DryRun: dryRun}
}

func (*Renamed) name() string { return "renamed" }

// Unfinished says that a file was still being copied when the command ended.
type Unfinished struct {
	head
	Entry
	Bytes int64 `json:"bytes"` // bytes transferred
}

func (*Unfinished) name() string { return "unfinished" }

// failed says that an entry failed, and why.
type failed struct {
	head
	Entry
	fault
}

func (*failed) name() string { return "failed" }

// note is a message for people that is not an error.
type note struct {
	head
	Message string `json:"message"`
}

func (*note) name() string { return "note" }

// fault holds the fields that describe an error.
type fault struct {
	Error    string `json:"error"`
	Cause    string `json:"cause"`
	ExitCode int    `json:"exit_code"`
}

// commandFailed reports an error that does not concern a single entry, or that ended the command.
type commandFailed struct {
	head
	fault
}

func (*commandFailed) name() string { return "error" }

// counts holds the number of entries with each outcome, and the bytes transferred.
type counts struct {
	Files      int64 `json:"files"` // files copied
	Bytes      int64 `json:"bytes"` // bytes transferred
	Resumed    int64 `json:"resumed"`
	Unchanged  int64 `json:"unchanged"`
	Made       int64 `json:"made"`
	Skipped    int64 `json:"skipped"`
	Removed    int64 `json:"removed"`
	Renamed    int64 `json:"renamed"`
	Failed     int64 `json:"failed"`
	Unfinished int64 `json:"unfinished"`
}

// add increments the counts that an event affects.
func (c *counts) add(e Event) {
	switch e := e.(type) {
	case *Copied:
		c.Files++
		c.Bytes += e.Bytes
		c.Resumed += e.Resumed
	case *Unchanged:
		c.Unchanged++
	case *Made:
		c.Made++
	case *Skipped:
		c.Skipped++
	case *Removed:
		c.Removed++
	case *Renamed:
		c.Renamed++
	case *failed:
		c.Failed++
	case *Unfinished:
		c.Unfinished++
		c.Bytes += e.Bytes
	}
}

// These are the possible results of a command.
const (
	resultOK          = "ok"          // everything was done
	resultIncomplete  = "incomplete"  // some entries failed
	resultFailed      = "failed"      // an event "error" gives the reason
	resultInterrupted = "interrupted" // a signal interrupted the command
)

// end is the last event of a command.
type end struct {
	head
	Result   string `json:"result"`
	ExitCode int    `json:"exit_code"`
	counts
	Seconds float64 `json:"seconds"`
	Rate    int64   `json:"rate"`
	DryRun  bool    `json:"dry_run"`
	Lost    int64   `json:"lost,omitempty"` // number of events that were dropped because the reader was too slow
}

func (*end) name() string { return "end" }
