package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/haul-project/haul/store"
)

// A tree is the upstream as a [store.Tree]. It makes each call through a link.
type tree struct{ link *link }

var _ store.Tree = (*tree)(nil)

// ask makes a call that neither changes anything nor opens a file, and returns the answer to the
// call.
func ask[T any](ctx context.Context, t *tree, do func(context.Context, store.Tree) (T, error)) (answer T, err error) {
	s, err := t.link.call(ctx, false, func(s *span) (err error) {
		answer, err = do(s.ctx, s.tree)
		return err
	})
	if s != nil {
		s.end()
	}
	return answer, err
}

// change does the same as ask, for calls that change something.
func (t *tree) change(ctx context.Context, do func(context.Context, store.Tree) error) error {
	s, err := t.link.call(ctx, true, func(s *span) error { return do(s.ctx, s.tree) })
	if s != nil {
		s.end()
	}
	return err
}

// errNoSize says that the server does not announce the size of a file, as with a page that a web
// server generates. haul cannot serve such a file, because it has to announce the size to its
// clients.
var errNoSize = fmt.Errorf("%w: the server does not say how large the file is", errors.ErrUnsupported)

func (t *tree) Open(ctx context.Context, name string) (store.File, error) {
	f := &file{link: t.link, name: name, caller: ctx}
	if err := f.open(); err != nil {
		return nil, err
	}
	if f.info.Size() < 0 {
		_ = f.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: errNoSize}
	}
	if t.link.reopens {
		return f, nil
	}
	return versioned{f}, nil
}

func (t *tree) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return ask(ctx, t, func(ctx context.Context, s store.Tree) (fs.FileInfo, error) { return sized(s.Stat(ctx, name)) })
}

func (t *tree) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	return ask(ctx, t, func(ctx context.Context, s store.Tree) (fs.FileInfo, error) { return sized(s.Lstat(ctx, name)) })
}

// sized returns the description fi, or an error if the size in it is not known.
func sized(fi fs.FileInfo, err error) (fs.FileInfo, error) {
	if err == nil && fi.Size() < 0 {
		return nil, &fs.PathError{Op: "stat", Path: fi.Name(), Err: errNoSize}
	}
	return fi, err
}

func (t *tree) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	return ask(ctx, t, func(ctx context.Context, s store.Tree) ([]fs.DirEntry, error) {
		entries, err := s.ReadDir(ctx, name)
		var kept []fs.DirEntry
		for _, e := range entries {
			if isEntry(e.Name()) {
				kept = append(kept, entry{e, t, path.Join(name, e.Name())})
			}
		}
		return kept, err
	})
}

// isEntry reports whether a name can be the name of a directory entry. The check is needed because
// a server may send any name.
func isEntry(name string) bool {
	return store.ValidName(name) && name != "." && !strings.Contains(name, "/")
}

// An entry is a directory entry whose description may lack the size. In that case, Info asks the
// server for the description.
type entry struct {
	fs.DirEntry
	tree *tree
	name string
}

func (e entry) Info() (fs.FileInfo, error) {
	fi, err := e.DirEntry.Info()
	if err == nil && fi.Size() < 0 {
		return e.tree.Lstat(context.Background(), e.name)
	}
	return fi, err
}

func (t *tree) OpenDir(ctx context.Context, name string) (store.Entries, error) {
	var opened store.Entries
	s, err := t.link.call(ctx, false, func(s *span) (err error) {
		if opened, err = s.tree.OpenDir(s.ctx, name); err == nil {
			s.opened = opened
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &entries{opened, s, t}, nil
}

// entries is an open directory whose listing leaves out entries with unsafe names.
type entries struct {
	store.Entries
	span *span
	tree *tree
}

func (e *entries) Next(into []fs.FileInfo) (int, error) {
	for {
		n, err := e.Entries.Next(into)
		if err != nil && err != io.EOF {
			err = e.tree.link.note(e.span.conn, err)
		}
		kept := into[:0]
		for _, fi := range into[:n] {
			switch {
			case !isEntry(fi.Name()):
			case fi.Size() < 0:
				kept = append(kept, obscure{fi})
			default:
				kept = append(kept, fi)
			}
		}
		if len(kept) > 0 || err != nil || len(into) == 0 {
			return len(kept), err
		}
	}
}

func (e *entries) Close() error {
	defer e.span.end()
	return e.Entries.Close()
}

// An obscure is the description of an entry whose size is not known. It passes on only the name,
// without a type and a size: see [store.Entries].
type obscure struct{ fs.FileInfo }

func (obscure) Size() int64       { return 0 }
func (obscure) Mode() fs.FileMode { return fs.ModeIrregular }
func (obscure) IsDir() bool       { return false }

// Create begins an upload. Clients of HTTP and S3 connect only when data is written, and fail at
// once if nothing listens. So if the upstream has not answered yet, Create first asks for a
// description of the name. That waits until the upstream is reachable, as reading does.
func (t *tree) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	if !t.link.hasAnswered() {
		if _, err := t.Stat(ctx, name); errors.Is(err, store.ErrUnavailable) {
			return nil, err
		}
	}
	var u store.Upload
	s, err := t.link.call(ctx, true, func(s *span) (err error) {
		if u, err = s.tree.Create(s.ctx, name, c); err == nil {
			s.opened = u
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &upload{u, s, t.link, ctx}, nil
}

func (t *tree) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	var h store.Handle
	s, err := t.link.call(ctx, a.Writes(), func(s *span) (err error) {
		if h, err = s.tree.OpenFile(s.ctx, name, a); err == nil {
			s.opened = h
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &handle{h, s, t.link}, nil
}

func (t *tree) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	return t.change(ctx, func(ctx context.Context, s store.Tree) error { return s.Mkdir(ctx, name, perm) })
}

func (t *tree) Remove(ctx context.Context, name string) error {
	return t.change(ctx, func(ctx context.Context, s store.Tree) error { return s.Remove(ctx, name) })
}

func (t *tree) RemoveDir(ctx context.Context, name string) error {
	return t.change(ctx, func(ctx context.Context, s store.Tree) error { return s.RemoveDir(ctx, name) })
}

func (t *tree) Rename(ctx context.Context, from, to string, replace bool) error {
	return t.change(ctx, func(ctx context.Context, s store.Tree) error { return s.Rename(ctx, from, to, replace) })
}

func (t *tree) Link(ctx context.Context, from, to string) error {
	return t.change(ctx, func(ctx context.Context, s store.Tree) error { return s.Link(ctx, from, to) })
}

// Symlink always returns an error. The upstream's server would follow a link wherever it leads,
// also out of the served directory.
func (t *tree) Symlink(_ context.Context, _, name string) error {
	return &os.PathError{Op: "symlink", Path: name, Err: fmt.Errorf("%w: no symbolic links are made in a source", errors.ErrUnsupported)}
}

func (t *tree) Readlink(ctx context.Context, name string) (string, error) {
	return ask(ctx, t, func(ctx context.Context, s store.Tree) (string, error) { return s.Readlink(ctx, name) })
}

func (t *tree) SetAttr(ctx context.Context, name string, a store.Attr, follow bool) error {
	return t.change(ctx, func(ctx context.Context, s store.Tree) error { return s.SetAttr(ctx, name, a, follow) })
}

func (t *tree) Space(ctx context.Context, name string) (store.Space, error) {
	return ask(ctx, t, func(ctx context.Context, s store.Tree) (store.Space, error) { return s.Space(ctx, name) })
}

// Capabilities returns the features of the store behind the current connection, if there is a
// connection. It leaves out the capabilities that are functions, because calls of them would bypass
// the limits of the link.
func (t *tree) Capabilities() store.Capabilities {
	t.link.mu.Lock()
	defer t.link.mu.Unlock()
	if c := t.link.conn; c != nil {
		return store.Capabilities{Features: store.CapabilitiesOf(c.tree).Features}
	}
	return store.Capabilities{}
}
