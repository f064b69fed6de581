package privilege

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxBeside is the largest number of names that Beside looks at.
const maxBeside = 10_000

// Beside returns the names of the other files in a log's directory that u may write to according to
// their owners and modes. A nil u means the user of this process. Files whose names extend the
// log's name, such as log.jsonl.1 or log-20260102.jsonl, belong to the log and are left out.
func Beside(file string, u *User) (others []string, err error) {
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(maxBeside)
	if err == io.EOF {
		err = nil
	}
	name := filepath.Base(file)
	ext := filepath.Ext(name)
	for _, e := range entries {
		rotated := strings.HasPrefix(e.Name(), strings.TrimSuffix(name, ext)+"-") && strings.Contains(e.Name(), ext)
		if !e.Type().IsRegular() || rotated || e.Name() == name || strings.HasPrefix(e.Name(), name+".") || strings.HasPrefix(e.Name(), name+"-") {
			continue
		}
		if info, err := e.Info(); err == nil && u.mayWrite(filepath.Join(filepath.Dir(file), e.Name()), info) {
			others = append(others, e.Name())
		}
	}
	return others, err
}

func (u *User) mayWrite(path string, info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch perm := info.Mode().Perm(); {
	case u == nil || !ok:
		return unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS) == nil
	case int(st.Uid) == u.UID:
		return perm&0o200 != 0
	case int(st.Gid) == u.GID || slices.Contains(u.Groups, int(st.Gid)):
		return perm&0o020 != 0
	default:
		return perm&0o002 != 0
	}
}
