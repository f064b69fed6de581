package copying

import (
	"io"

	"github.com/haul-project/haul/cmd/haul/internal/cli/events"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/store/treecopy"
)

// A Verb is the command that files are copied for. It names the copy in messages, and decides
// what a location stands for.
type Verb string

// The commands that copy.
const (
	Get  Verb = "get"
	Put  Verb = "put"
	Cp   Verb = "cp"
	Sync Verb = "sync" // its locations are directories whose contents are meant
)

// DefaultParallel is how many files are moved at once over TFTP, if Config does not say.
const DefaultParallel = 8

// A Config says how files are copied.
type Config struct {
	// Options apply to a copy over SFTP, HTTP or S3. Umask, FileTimes, Fatal and Replaced
	// are set here. Sync also sets Recursive, and Unchanged if that is Never.
	treecopy.Options

	Remote  remote.Config // Say and Quiet are set here
	Verbose bool          // print the name of each file
	Quiet   bool          // print nothing but errors

	// Events, if set, gets an event for each step. Then only errors are printed.
	Events *events.Log

	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// isSilent reports whether nothing is printed for people but errors.
func (c *Config) isSilent() bool { return c.Quiet || c.Events != nil }

// movesAll reports whether all of a file is going to be moved, as fast as possible.
func (c *Config) movesAll() bool {
	return !c.DryRun && !c.Continue && c.Unchanged == treecopy.Never && c.Limit == 0
}

// setSync sets what a sync to a location implies.
func (c *Config) setSync(to remote.Location) {
	keepsTimes := !to.IsRemote() || to.Protocol == remote.SFTP
	c.Recursive, c.FileTimes = true, keepsTimes
	switch {
	case c.Unchanged != treecopy.Never:
	case keepsTimes:
		c.Unchanged = treecopy.SizeAndTime
	default: // a file has the time of its upload, which says nothing of its content
		c.Unchanged = treecopy.Hash
	}
}
