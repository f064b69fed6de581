package sftp

import (
	"bytes"
	"cmp"
	"io/fs"
	"path"
	"strings"
)

// A paths converts the paths that a client sends to names of the account's store.
type paths struct {
	account *Account
	user    string // name of the account's user, for paths that begin with "~"
	home    string // the directory in which relative paths begin, as a name of the store
}

// resolve returns the store's name for a path from a client. It is the only place where paths
// become names: all code that interprets "/" or ".." has to use it.
//
// A path is cleaned as text, unless [Account].Resolve is set. A relative path begins in the home
// directory. The parent of the root is the root itself. The directories of the path need not exist,
// so the result does not reveal which ones do. Symbolic links are left to the store, which
// follows no link that leads out of its root.
func (p *paths) resolve(path []byte) (string, error) {
	if bytes.IndexByte(path, 0) >= 0 {
		return "", fs.ErrInvalid
	}
	if p.account.Resolve != nil {
		if at := lastParent(path); at > 0 {
			above, err := p.account.Resolve(p.absolute(string(path[:at])))
			return p.join(above + "/" + string(path[at:])), err
		}
	}
	return p.join(string(path)), nil
}

// lastParent returns the index after the last element ".." of a path, or 0 if the path has no such
// element.
func lastParent(p []byte) int {
	for at := len(p); ; {
		at = bytes.LastIndex(p[:at], []byte(".."))
		switch end := at + 2; {
		case at < 0:
			return 0
		case (at == 0 || p[at-1] == '/') && (end == len(p) || p[end] == '/'):
			return end
		}
		at++ // the next match may overlap this one, as in "..."
	}
}

// resolveBoth resolves two paths.
func (p *paths) resolveBoth(from, to []byte) (a, b string, err error) {
	if a, err = p.resolve(from); err == nil {
		b, err = p.resolve(to)
	}
	return a, b, err
}

// realpath returns the path with which the server answers REALPATH and expand-path.
func (p *paths) realpath(path string) (string, error) {
	if p.account.Resolve == nil {
		return shown(p.join(path)), nil
	}
	return p.account.Resolve(p.absolute(path))
}

func (p *paths) join(name string) string {
	if name = path.Clean(p.absolute(name))[1:]; name == "" {
		return "."
	}
	return name
}

func (p *paths) absolute(path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return "/" + p.home + "/" + path
}

// expand replaces "~" at the beginning of a path with the home directory of the user, and "~user"
// with the home directory of that user.
func (p *paths) expand(path string) (string, error) {
	user, ok := strings.CutPrefix(path, "~")
	if !ok {
		return path, nil
	}
	user, rest, _ := strings.Cut(user, "/")
	home, ok := p.homeOf(user)
	if !ok {
		return "", fs.ErrNotExist
	}
	return home + "/" + rest, nil
}

// homeOf returns the home directory of a user, as the client sees it. An empty name means the
// account's own user.
func (p *paths) homeOf(user string) (string, bool) {
	user = cmp.Or(user, p.user)
	if p.account.Home != nil {
		return p.account.Home(user)
	}
	return shown(p.home), user == p.user
}
