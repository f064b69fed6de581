package wire

import (
	"fmt"
	"strings"
)

// OpenFlags say for which operations a file is opened (draft, section 6.3). Flags that version 3
// does not define may be received, and have no meaning.
type OpenFlags uint32

// The open flags.
const (
	OpenRead      OpenFlags = 1 << iota // read
	OpenWrite                           // write
	OpenAppend                          // every write goes to the end of the file, and its offset is ignored
	OpenCreate                          // create the file if it does not exist
	OpenTruncate                        // empty an existing file
	OpenExclusive                       // with OpenCreate: fail if the file exists
)

var openFlagNames = [...]string{"READ", "WRITE", "APPEND", "CREAT", "TRUNC", "EXCL"}

// Check returns an error if flags contradict each other.
//
// It accepts TRUNC without CREAT, which the draft forbids: clients use it to empty a file that must
// exist, and OpenSSH's server supports it. It refuses TRUNC or APPEND without WRITE, because some
// systems then truncate the file anyway.
func (f OpenFlags) Check() error {
	switch {
	case f&(OpenRead|OpenWrite) == 0:
		return fmt.Errorf("open flags %v: neither READ nor WRITE", f)
	case f&OpenWrite == 0 && f&(OpenAppend|OpenTruncate) != 0:
		return fmt.Errorf("open flags %v: APPEND and TRUNC want WRITE", f)
	case f&OpenCreate == 0 && f&OpenExclusive != 0:
		return fmt.Errorf("open flags %v: EXCL wants CREAT", f)
	}
	return nil
}

// String lists the flags by their names in the draft, without SSH_FXF_.
func (f OpenFlags) String() string {
	var names []string
	for i, name := range openFlagNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if rest := f >> len(openFlagNames) << len(openFlagNames); rest != 0 || f == 0 {
		names = append(names, fmt.Sprintf("%#x", uint32(rest)))
	}
	return strings.Join(names, "|")
}
