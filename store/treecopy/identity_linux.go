package treecopy

import (
	"fmt"
	"io/fs"
	"syscall"
)

// identity returns a string that identifies a local file with its content: it changes when the file
// is written to. It returns "" for a file that is not local.
func identity(fi fs.FileInfo) string {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d %d %d.%d", st.Dev, st.Ino, st.Ctim.Sec, st.Ctim.Nsec)
}
