package source

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
)

// A linkedStore is a server of SFTP with symbolic links, whose names are in links with the
// paths that they lead to. It follows them.
type linkedStore struct {
	store.Tree
	links   map[string]string
	lexical bool // RealPath returns links as they are
}

func (s linkedStore) RealPath(_ context.Context, name string) (string, error) {
	if to := s.links[name]; to != "" && !s.lexical {
		return to, nil
	}
	return path.Join("/srv", name), nil
}

func (s linkedStore) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	fi, err := s.Tree.Lstat(ctx, name)
	if err == nil && s.links[name] != "" {
		fi = linkInfo{fi}
	}
	return fi, err
}

func (s linkedStore) OpenListed(ctx context.Context, name string, _ fs.FileInfo) (store.File, error) {
	return s.Open(ctx, name)
}

type linkInfo struct{ fs.FileInfo }

func (linkInfo) Mode() fs.FileMode { return fs.ModeSymlink | 0o777 }
func (linkInfo) IsDir() bool       { return false }

// Links that lead out of the directory are not followed, and on a server that does not say
// where links lead, none are.
func TestLinksThatLeadOut(t *testing.T) {
	mem := store.Mem(0)
	for _, dir := range []string{"d", "d/e", "in", "out"} {
		if err := mem.Mkdir(t.Context(), dir, 0); err != nil {
			t.Fatal(err)
		}
	}
	names := []string{"d/e/f", "in/f", "out/f", "f", "inside", "outside"}
	for _, name := range names {
		storetest.Put(t, mem, name, name)
	}
	links := map[string]string{"in": "/srv/d", "out": "/etc", "inside": "/srv/f", "outside": "/srv2/f"}
	for _, tt := range []struct {
		lexical bool
		want    map[string]error
	}{
		{false, map[string]error{"out/f": errOutside, "outside": errOutside}},
		{true, map[string]error{"out/f": errUnresolved, "outside": errUnresolved, "in/f": errUnresolved, "inside": errUnresolved}},
	} {
		tree := &sftpTree{sftpStore: linkedStore{mem, links, tt.lexical}, root: "/srv", dirs: map[string]time.Time{}}
		for range 2 { // what is known of directories is used then
			for _, name := range names {
				f, err := tree.Open(t.Context(), name)
				if err == nil {
					f.Close()
				}
				if !errors.Is(err, tt.want[name]) || (err == nil) != (tt.want[name] == nil) {
					t.Errorf("lexical %v: open %s: %v, want %v", tt.lexical, name, err, tt.want[name])
				}
			}
		}
		if _, err := tree.OpenDir(t.Context(), "out"); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("lexical %v: list out: %v", tt.lexical, err)
		}
		if u, err := tree.Create(t.Context(), "out/new", store.Create{}); err == nil {
			t.Errorf("lexical %v: a file is created outside", tt.lexical)
			u.Close()
		}
	}
}
