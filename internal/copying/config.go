package copying

import (
	"io"

	"github.com/haul-project/haul/internal/remote"
	"github.com/haul-project/haul/store/treecopy"
)

// DefaultParallel is how many files are moved at once over TFTP, if Config does not say.
const DefaultParallel = 8

// A Config says how files are copied, and between what.
type Config struct {
	// Options are those of a copy over SFTP or HTTP. Umask, FileTimes, Fatal and Replaced
	// are set here.
	treecopy.Options

	Remote  remote.Config // Say and Quiet are set here
	Verbose bool          // print the name of each file
	Quiet   bool          // print nothing but errors

	Stdin          io.Reader
	Stdout, Stderr io.Writer
}
