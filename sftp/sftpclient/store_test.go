package sftpclient

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
)

// openTree returns an empty store of a client on its own server.
func openTree(t *testing.T, configure func(*fakeServer), config Config) store.Tree {
	p := newFakeServer()
	if configure != nil {
		configure(p)
	}
	if err := p.tree.Mkdir(t.Context(), "root", 0); err != nil {
		t.Fatal(err)
	}
	c := p.client(t, config)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		p.wait.Wait()
		if n := p.openHandles(); n != 0 {
			t.Errorf("%d handles left open", n)
		}
	})
	return c.Store("root")
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return openTree(t, nil, Config{}) })
}

// Without OpenSSH's extensions a store is slower and replaces files in two steps, but otherwise
// behaves in the same way.
func TestStoreWithoutExtensions(t *testing.T) {
	storetest.RunUploads(t, func(t *testing.T) store.Store {
		return openTree(t, func(p *fakeServer) { p.ext = 0 }, Config{NoReadAhead: true, NoWriteBehind: true})
	})
}

func TestFS(t *testing.T) {
	withFakeServer(t, Config{}, nil, func(t *testing.T, p *fakeServer, c *Client) {
		files := []string{"a", "b/c", "b/d/e", "b/d/f", "x y", "é"}
		for _, name := range files {
			if err := c.MkdirAll(t.Context(), "top/"+path.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			p.put(t, "top/"+name, []byte("content of "+name))
		}
		if err := c.Symlink(t.Context(), "a", "top/link"); err != nil {
			t.Fatal(err)
		}
		fsys := c.FS("top")
		if err := fstest.TestFS(fsys, append(files, "link")...); err != nil {
			t.Error(err)
		}
		var seen []string
		err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
			if !d.IsDir() {
				seen = append(seen, name)
			}
			return err
		})
		want := append(slices.Clone(files), "link")
		slices.Sort(want)
		slices.Sort(seen)
		if err != nil || !slices.Equal(seen, want) {
			t.Errorf("WalkDir = %q, %v, want %q", seen, err, want)
		}
		for _, name := range []string{"", "/a", "../x", "a/../a", "a/"} {
			if _, err := fsys.Open(name); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("Open(%q): %v", name, err)
			}
		}
		sub, err := fs.Sub(fsys, "b/d")
		if err != nil {
			t.Fatal(err)
		}
		if b, err := fs.ReadFile(sub, "e"); string(b) != "content of b/d/e" || err != nil {
			t.Errorf("ReadFile = %q, %v", b, err)
		}
	})
}

// A directory of very many files is listed in few round trips.
func TestListsLargeDirectories(t *testing.T) {
	const n = 20_000
	withFakeServer(t, Config{}, func(p *fakeServer) {
		p.link.latency = tripTime / 2
		p.tree = crowdedTree{p.tree, n}
	}, func(t *testing.T, p *fakeServer, c *Client) {
		var list []fs.DirEntry
		var err error
		took := trips(p, func() { list, err = c.ReadDir(t.Context(), "crowd") })
		if err != nil || len(list) != n {
			t.Errorf("ReadDir = %d entries, %v", len(list), err)
		}
		if took > 12 {
			t.Errorf("listing took %.1f round trips", took)
		}
		if !slices.IsSortedFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) }) {
			t.Error("entries not sorted")
		}

		// A directory that is only partly listed is not read to its end.
		time.Sleep(10 * tripTime) // the client has also sent requests beyond the end; wait for their answers
		before := p.count("READDIR")
		d, err := c.OpenDir(t.Context(), "crowd")
		if err != nil {
			t.Fatal(err)
		}
		if n, err := d.Next(make([]fs.FileInfo, 10)); n != 10 || err != nil {
			t.Errorf("Next = %d, %v", n, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if n, err := d.Next(make([]fs.FileInfo, 10)); n != 0 || !errors.Is(err, fs.ErrClosed) {
			t.Errorf("Next after Close = %d, %v", n, err)
		}
		time.Sleep(10 * tripTime)
		if n := p.count("READDIR") - before; n > 10 {
			t.Errorf("%d READDIRs for ten names", n)
		}
	})
}

// A crowdedTree has a directory of many files.
type crowdedTree struct {
	store.Tree
	n int
}

func (v crowdedTree) OpenDir(ctx clientContext, name string) (store.Entries, error) {
	if name != "crowd" {
		return v.Tree.OpenDir(ctx, name)
	}
	return &crowdedEntries{left: v.n}, nil
}

type crowdedEntries struct{ left int }

func (e *crowdedEntries) Next(into []fs.FileInfo) (int, error) {
	n := min(e.left, len(into))
	for i := range n {
		e.left--
		into[i] = storewire.InfoOf("file "+time.Duration(e.left).String(), wire.Attrs{})
	}
	if n == 0 && len(into) > 0 {
		return 0, errEndOfList
	}
	return n, nil
}

func (e *crowdedEntries) Close() error { return nil }

// RemoveAll removes the complete tree, and nothing that its links lead to.
func TestRemoveAll(t *testing.T) {
	withFakeServer(t, Config{}, func(p *fakeServer) { p.link.latency = time.Millisecond }, func(t *testing.T, p *fakeServer, c *Client) {
		ctx := t.Context()
		rnd := rand.New(rand.NewPCG(1, 1))
		dirs := []string{"tree"}
		if err := c.Mkdir(ctx, "tree", 0o755); err != nil {
			t.Fatal(err)
		}
		p.put(t, "kept", []byte("kept"))
		for i := range 300 {
			name := dirs[rnd.IntN(len(dirs))] + "/" + time.Duration(i).String()
			switch rnd.IntN(4) {
			case 0:
				if err := c.Mkdir(ctx, name, 0o755); err != nil {
					t.Fatal(err)
				}
				dirs = append(dirs, name)
			case 1:
				if err := c.Symlink(ctx, "/kept", name); err != nil {
					t.Fatal(err)
				}
			default:
				p.put(t, name, nil)
			}
		}
		if err := c.RemoveAll(ctx, "tree"); err != nil {
			t.Error(err)
		}
		if _, err := c.Lstat(ctx, "tree"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("tree after RemoveAll: %v", err)
		}
		if !bytes.Equal(p.get(t, "kept"), []byte("kept")) {
			t.Error("a link was followed")
		}
		for _, name := range []string{"tree", "none/at/all"} {
			if err := c.RemoveAll(ctx, name); err != nil {
				t.Errorf("RemoveAll of nothing: %v", err)
			}
		}
		if err := c.RemoveAll(ctx, "kept"); err != nil {
			t.Error(err)
		}
	})
}

// If a server keeps reporting that directories are not empty, RemoveAll gives up.
func TestRemoveAllOfWhatStays(t *testing.T) {
	withFakeServer(t, Config{}, func(p *fakeServer) { p.tree = staying{p.tree} }, func(t *testing.T, p *fakeServer, c *Client) {
		name := "d"
		for range 20 { // without a limit, 3^20 passes
			if err := c.Mkdir(t.Context(), name, 0o755); err != nil {
				t.Fatal(err)
			}
			name += "/d"
		}
		p.put(t, path.Dir(name)+"/f", nil)
		if err := c.RemoveAll(t.Context(), "d"); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%v, want a directory that is not empty", err)
		}
	})
}

// If a server reports a directory in each directory, RemoveAll gives up.
func TestRemoveAllWithoutEnd(t *testing.T) {
	listed := false // only the session's goroutine uses it
	dir := wire.Attrs{Flags: wire.AttrMode, Mode: wire.ModeDir | 0o755}
	withFakeServer(t, Config{}, func(p *fakeServer) {
		p.hook = func(_ *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
			switch q.Type {
			case wire.TypeLstat, wire.TypeStat:
				return wire.AppendAttrs(nil, q.ID, dir), true
			case wire.TypeOpendir:
				listed = false
				return wire.AppendHandle(nil, q.ID, "h"), true
			case wire.TypeReaddir:
				if listed {
					return wire.AppendStatus(nil, q.ID, wire.EOF, ""), true
				}
				listed = true
				return wire.AppendEntry(wire.AppendNames(nil, q.ID), 0, "d", nil, dir), true
			case wire.TypeClose:
				return wire.AppendStatus(nil, q.ID, wire.OK, ""), true
			}
			return nil, false
		}
	}, func(t *testing.T, p *fakeServer, c *Client) {
		if err := c.RemoveAll(t.Context(), "d"); err == nil || !strings.Contains(err.Error(), "deeper than 1000 directories") {
			t.Error(err)
		}
	})
}

// A staying tree reports that removals succeed, but removes nothing.
type staying struct{ store.Tree }

func (staying) Remove(context.Context, string) error { return nil }

func (staying) RemoveDir(_ context.Context, name string) error {
	return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrExist}
}

// An upload is hidden until it is complete, replaces the target in one step, and leaves nothing
// behind.
func TestUploads(t *testing.T) {
	withFakeServer(t, Config{}, func(p *fakeServer) { p.link.latency = time.Millisecond }, func(t *testing.T, p *fakeServer, c *Client) {
		ctx := t.Context()
		st := c.Store("/")
		names := func() (list []string) {
			entries, err := p.tree.ReadDir(ctx, ".")
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				list = append(list, e.Name())
			}
			return list
		}
		p.put(t, "f", []byte("old"))
		u, err := st.Create(ctx, "f", store.Create{})
		if err != nil {
			t.Fatal(err)
		}
		if got := names(); len(got) != 2 || !isUpload(got[0]) {
			t.Errorf("during an upload the server has %q", got)
		}
		if list, err := st.ReadDir(ctx, "."); len(list) != 1 || err != nil {
			t.Errorf("during an upload the store lists %v, %v", list, err)
		}
		if err := u.Close(); err != nil {
			t.Error(err)
		}
		if got := names(); len(got) != 1 {
			t.Errorf("after a discarded upload the server has %q", got)
		}

		// An upload to a symbolic link replaces the link's target.
		if err := c.Symlink(ctx, "f", "link"); err != nil {
			t.Fatal(err)
		}
		if err := uploadAll(ctx, c, "link", []byte("new")); err != nil {
			t.Error(err)
		}
		if fi, err := c.Lstat(ctx, "link"); err != nil || fi.Mode().Type() != fs.ModeSymlink {
			t.Errorf("the link is %v, %v", fi, err)
		}
		if got := p.get(t, "f"); string(got) != "new" {
			t.Errorf("behind the link there is %q", got)
		}

		// An upload is discarded if its context ends.
		short, cancel := withCancel(t)
		u, err = st.Create(short, "g", store.Create{})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := u.Commit(); err == nil {
			t.Error("Commit after the end of its context returned no error")
		}
		if got := names(); len(got) != 2 {
			t.Errorf("after an upload whose context ended the server has %q", got)
		}

		// There has to be enough space.
		p.tree = fullTree{p.tree}
		if _, err := st.Create(ctx, "big", store.Create{Size: 1 << 30}); !errors.Is(err, store.ErrNoSpace) {
			t.Errorf("Create of more than there is room for: %v", err)
		}
	})
}

// A fullTree has little space.
type fullTree struct{ store.Tree }

func (fullTree) Space(clientContext, string) (store.Space, error) {
	return store.Space{Total: 100 << 20, Free: 10 << 20, Available: 5 << 20}, nil
}
