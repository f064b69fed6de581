package sftp

import (
	"bytes"
	"io/fs"
	"path"
	"strings"
)

// resolve returns the store's name for a path. It is the one place where paths
// of clients become names: all that reads "/" or ".." has to come through here.
//
// A path is taken as text. It is absolute or begins in the home directory, ".."
// in the root is the root, and nothing on the way has to exist, so that it
// does not show what does. Symbolic links are for the store, which follows none out of
// its root.
func (s *session) resolve(p []byte) (string, error) {
	if bytes.IndexByte(p, 0) >= 0 {
		return "", fs.ErrInvalid
	}
	return s.conn.join(string(p)), nil
}

func (c *serverConn) join(p string) string {
	if !strings.HasPrefix(p, "/") {
		p = "/" + c.home + "/" + p
	}
	if p = path.Clean(p)[1:]; p == "" {
		return "."
	}
	return p
}

// resolveBoth is resolve for two.
func (s *session) resolveBoth(from, to []byte) (a, b string, err error) {
	if a, err = s.resolve(from); err == nil {
		b, err = s.resolve(to)
	}
	return a, b, err
}

// expand replaces "~" at the beginning, which stands for the home directory of
// the user, and of no other.
func (c *serverConn) expand(p string) (string, error) {
	user, ok := strings.CutPrefix(p, "~")
	if !ok {
		return c.join(p), nil
	}
	user, rest, _ := strings.Cut(user, "/")
	if user != "" && user != c.info.User {
		return "", fs.ErrNotExist
	}
	return c.join("./" + rest), nil
}
