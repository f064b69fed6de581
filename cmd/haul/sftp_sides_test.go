package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
)

// A fullTree has no space left for new files or, if `late` is set, for data.
type fullTree struct {
	store.Tree
	late bool
}

func (f fullTree) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	u, err := f.Tree.Create(ctx, name, c)
	if err != nil || f.late {
		return fullUpload{u}, err
	}
	_ = u.Close()
	return nil, store.ErrNoSpace
}

func (f fullTree) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	if !f.late && (a.Write || a.Append) {
		return nil, store.ErrNoSpace
	}
	h, err := f.Tree.OpenFile(ctx, name, a)
	return fullHandle{h}, err
}

type fullUpload struct{ store.Upload }

func (fullUpload) WriteAt([]byte, int64) (int, error) { return 0, store.ErrNoSpace }

type fullHandle struct{ store.Handle }

func (fullHandle) WriteAt([]byte, int64) (int, error) { return 0, store.ErrNoSpace }

// A full disk on the server counts as the server's refusal, in each phase of an upload. The message
// has the name that the user knows.
func TestSFTPServerFull(t *testing.T) {
	mine := filepath.Join(t.TempDir(), "mine")
	writeFile(t, mine, strings.Repeat("m", 2<<20))
	for _, late := range []bool{false, true} {
		l := startLabWith(t, labOptions{tree: func(t store.Tree) store.Tree { return fullTree{t, late} }}, nil)
		for _, flags := range []string{"", "--continue", "--in-place"} {
			args := append([]string{"put"}, append(strings.Fields(flags), mine, l.url("/there"))...)
			code, _, msg := l.haul(args...)
			if code != exitRefused || !strings.Contains(msg, " /there: ") || strings.Contains(msg, ".upload") || !strings.Contains(strings.ToLower(msg), "no space left") {
				t.Errorf("haul %q, full late %v: exit code %d, says %s", args, late, code, msg)
			}
			if strings.Contains(msg, "server: server") {
				t.Errorf("haul %q stammers: %s", args, msg)
			}
		}
	}
}
