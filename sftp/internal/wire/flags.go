package wire

import (
	"fmt"
	"strings"
)

// OpenFlags say what a file is opened for (draft, section 6.3). Flags that
// version 3 does not have may come too, and mean nothing.
type OpenFlags uint32

// The open flags.
const (
	OpenRead      OpenFlags = 1 << iota // read
	OpenWrite                           // write
	OpenAppend                          // every write goes to the end, whatever its offset
	OpenCreate                          // create the file if it does not exist
	OpenTruncate                        // empty the file if there is one
	OpenExclusive                       // with OpenCreate: fail if there is one
)

var openFlagNames = [...]string{"READ", "WRITE", "APPEND", "CREAT", "TRUNC", "EXCL"}

// Check reports flags that contradict each other.
//
// It lets pass TRUNC without CREAT, which the draft forbids: clients use it to
// empty a file that must exist, and OpenSSH's server understands. It refuses
// TRUNC or APPEND without WRITE, since some systems truncate even so.
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
