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

// Beside returns the names of the other files in a log's directory that u may write to, and of the
// directories there that u may search, according to their owners and modes. The names of directories
// end in a slash. A nil u means the user of this process. Files whose names extend the
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
		if !e.Type().IsRegular() && !e.IsDir() || rotated || e.Name() == name || strings.HasPrefix(e.Name(), name+".") || strings.HasPrefix(e.Name(), name+"-") {
			continue
		}
		info, err := e.Info()
		switch path := filepath.Join(filepath.Dir(file), e.Name()); {
		case err != nil:
		case e.IsDir():
			if u.may(path, info, unix.X_OK) { // whatever is below it: the rule covers that, too
				others = append(others, e.Name()+"/")
			}
		case u.may(path, info, unix.W_OK):
			others = append(others, e.Name())
		}
	}
	return others, err
}

// may reports whether the user has an access to a file: unix.W_OK, or unix.X_OK to search a
// directory.
func (u *User) may(path string, info fs.FileInfo, access uint32) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch perm := uint32(info.Mode().Perm()); {
	case u == nil || !ok:
		return unix.Faccessat(unix.AT_FDCWD, path, access, unix.AT_EACCESS) == nil
	case int(st.Uid) == u.UID:
		return perm&(access<<6) != 0
	case int(st.Gid) == u.GID || slices.Contains(u.Groups, int(st.Gid)):
		return perm&(access<<3) != 0
	default:
		return perm&access != 0
	}
}
