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

// A linkedStore is an SFTP server that serves /srv with symbolic links: names, and the results of
// READLINK.
type linkedStore struct {
	store.Tree
	links map[string]string
	real  map[string]string // their targets; nil if RealPath returns names unchanged
}

func (s linkedStore) RealPath(_ context.Context, name string) (string, error) {
	if to := s.real[name]; to != "" {
		return to, nil
	}
	return path.Join("/srv", name), nil
}

func (s linkedStore) Readlink(_ context.Context, name string) (string, error) {
	return s.links[name], nil
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

// Links that lead out of the directory are not followed.
func TestLinksThatLeadOut(t *testing.T) {
	mem := store.Mem(0)
	for _, dir := range []string{"d", "d/e", "in", "out", "up"} {
		if err := mem.Mkdir(t.Context(), dir, 0); err != nil {
			t.Fatal(err)
		}
	}
	links := map[string]string{
		"in": "d", "up": "in/e/../../..", "out": "/etc", "inside": "./f", "absolute": "/srv/d/e/f", "outside": "d/../../srv2/f", "far": "/srv2/f",
		"circle": "circle", "through": "in/e/f", "d/e/back": "../../inside", "d/e/away": "../../out/f",
	}
	real := map[string]string{
		"in": "/srv/d", "up": "/", "out": "/etc", "inside": "/srv/f", "absolute": "/srv/d/e/f", "outside": "/srv2/f", "far": "/srv2/f",
		"circle": "/", "through": "/srv/d/e/f", "d/e/back": "/srv/f", "d/e/away": "/etc/f",
	}
	allowed := map[string]bool{"d/e/f": true, "in/f": true, "f": true, "inside": true, "absolute": true, "through": true, "d/e/back": true}
	names := []string{"d/e/f", "in/f", "out/f", "up/f", "f"}
	for name := range links {
		if fi, err := mem.Stat(t.Context(), name); err != nil || !fi.IsDir() {
			names = append(names, name)
		}
	}
	for _, name := range names {
		storetest.Put(t, mem, name, name)
	}
	files := linkedStore{mem, links, real}
	of := store.Capabilities{RealPath: files.RealPath, OpenListed: files.OpenListed}
	tree := &sftpTree{Tree: files, of: of, root: "/srv", dirs: map[string]time.Time{}}
	for range 2 { // the second time uses the known directories
		for _, name := range names {
			f, err := tree.Open(t.Context(), name)
			if err == nil {
				f.Close()
			}
			if (err == nil) != allowed[name] || err != nil && !errors.Is(err, fs.ErrPermission) {
				t.Errorf("open %s: %v", name, err)
			}
		}
	}
	if _, err := tree.OpenDir(t.Context(), "out"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("list out: %v", err)
	}
	if u, err := tree.Create(t.Context(), "out/new", store.Create{}); err == nil {
		t.Error("a file is created outside")
		u.Close()
	}
}
