package copying

import (
	"io"

	"github.com/haul-project/haul/cmd/haul/internal/cli/events"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/store/treecopy"
)

// A Verb is the name of the command that copies files. It appears in messages, and decides what a
// location means: for Sync it is a directory whose contents are copied.
type Verb string

// These are the commands of haul that copy files.
const (
	Get  Verb = "get"
	Put  Verb = "put"
	Cp   Verb = "cp"
	Sync Verb = "sync" // each location is a directory whose contents are copied
)

// DefaultParallel is how many files are transferred at once over TFTP unless Config says otherwise.
const DefaultParallel = 8

// A Config says how to copy files.
type Config struct {
	// Options apply to copies over SFTP, HTTP or S3. This package sets Umask, FileTimes, Fatal and
	// Replaced. For Sync it also sets Recursive and, if Unchanged is Never, Unchanged.
	treecopy.Options

	Remote  remote.Config // how to reach the servers; this package sets Say and Quiet
	Verbose bool          // print the name of each file
	Quiet   bool          // print only errors

	// Events, if set, receives an event for each step. Then only errors are printed.
	Events *events.Log

	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// isSilent reports whether only errors are printed for people.
func (c *Config) isSilent() bool { return c.Quiet || c.Events != nil }

// movesAll reports whether every file is transferred completely, whatever the target contains, and
// without a limit of the rate.
func (c *Config) movesAll() bool {
	return !c.DryRun && !c.Continue && c.Unchanged == treecopy.Never && c.Limit == 0
}

// setSync sets the options that haul sync needs if `to` is its target.
func (c *Config) setSync(to remote.Location) {
	keepsTimes := !to.IsRemote() || to.Protocol == remote.SFTP
	c.Recursive, c.FileTimes = true, keepsTimes
	switch {
	case c.Unchanged != treecopy.Never:
	case keepsTimes:
		c.Unchanged = treecopy.SizeAndTime
	default: // the server sets the time of an upload as the file's time, so compare hashes instead
		c.Unchanged = treecopy.Hash
	}
}
