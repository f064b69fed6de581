package sftpclient

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/haul-project/haul/store"
)

// An upload to a symbolic link replaces the link's target, also on a server whose REALPATH does
// not follow links.
func TestUploadsToLinks(t *testing.T) {
	for _, kind := range []string{"memory", "directory"} {
		for _, who := range []string{"", "me"} { // Create.Source: without resuming, and with it
			t.Run(kind+" "+who, func(t *testing.T) {
				tree := openHaulTree(t, kind)
				ctx := t.Context()
				for _, dir := range []string{"d", "d/e", "other"} {
					if err := tree.Mkdir(ctx, dir, 0o755); err != nil {
						t.Fatal(err)
					}
				}
				for link, target := range map[string]string{
					"plain": "file", "d/e/up": "../../file", "dir": "d/e", "twice": "dir/up", "fresh": "d/e/new", "loop": "loop",
					"out": "../../etc/file", "todir": "other", "nodir": "none/new",
				} {
					if err := tree.Symlink(ctx, target, link); err != nil {
						t.Fatal(err)
					}
				}
				h := newHaulHost(t, tree, false)
				c, end := h.client(t, Config{})
				defer end()
				for _, test := range []struct {
					name, target string // target "" means that the upload is refused
				}{
					{"plain", "file"}, {"d/e/up", "file"}, {"dir/up", "file"}, {"twice", "file"}, {"fresh", "d/e/new"}, {"fresh", "d/e/new"},
					{"loop", ""}, {"out", ""}, {"todir", ""}, {"nodir", ""},
				} {
					err := uploadToLink(t, c.Store(""), test.name, who)
					if (err == nil) != (test.target != "") {
						t.Errorf("%s: %v", test.name, err)
					}
					if test.target == "" {
						continue
					}
					f, err := tree.Open(ctx, test.target)
					if err != nil {
						t.Errorf("%s: %v", test.name, err)
						continue
					}
					b := make([]byte, 20)
					n, _ := f.ReadAt(b, 0)
					if f.Close(); string(b[:n]) != "for "+test.name {
						t.Errorf("%s: %s has %q", test.name, test.target, b[:n])
					}
				}
				for _, link := range []string{"plain", "d/e/up", "dir", "twice", "fresh", "loop", "out", "todir"} {
					if fi, err := tree.Lstat(ctx, link); err != nil || fi.Mode().Type() != fs.ModeSymlink {
						t.Errorf("%s is no link any more: %v", link, err)
					}
				}
				for _, name := range []string{"etc", "none"} {
					if _, err := tree.Lstat(ctx, name); !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("%s has come from nowhere: %v", name, err)
					}
				}
			})
		}
	}
}

func uploadToLink(t *testing.T, st store.Store, name, who string) error {
	u, err := st.Create(t.Context(), name, store.Create{Resume: who})
	if err != nil {
		return err
	}
	defer u.Close()
	if _, err := u.WriteAt([]byte("for "+name), 0); err != nil {
		return err
	}
	return u.Commit()
}
