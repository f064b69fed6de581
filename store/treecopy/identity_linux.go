package treecopy

import (
	"fmt"
	"io/fs"
	"syscall"
)

// identity tells a local file, as it is now, from all others, and from itself once
// it is written to. It is empty for what is not local.
func identity(fi fs.FileInfo) string {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d %d %d.%d", st.Dev, st.Ino, st.Ctim.Sec, st.Ctim.Nsec)
}
