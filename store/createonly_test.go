package store_test

import (
	"errors"
	"io"
	"io/fs"
	"testing"

	"github.com/haul-project/haul/store"
)

// Existing files can be read and listed, but neither changed nor removed. New files can be changed
// and removed by their makers.
func TestCreateOnly(t *testing.T) {
	ctx := t.Context()
	m := store.Mem(1 << 20)
	put := func(tree store.Tree, name, text string) error {
		u, err := tree.Create(ctx, name, store.Create{})
		if err != nil {
			return err
		}
		if _, err = u.WriteAt([]byte(text), 0); err != nil {
			return err
		}
		return u.Commit()
	}
	if err := put(m, "old", "old"); err != nil {
		t.Fatal(err)
	}
	v := store.CreateOnly(m)
	for name, err := range map[string]error{
		"replace": put(v, "old", "new"),
		"remove":  v.Remove(ctx, "old"),
		"rename":  v.Rename(ctx, "old", "older", true),
		"setattr": v.SetAttr(ctx, "old", store.Attr{}, true),
	} {
		if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := v.OpenFile(ctx, "old", store.Access{Read: true, Write: true}); !errors.Is(err, fs.ErrPermission) {
		t.Error("open to write:", err)
	}
	h, err := v.OpenFile(ctx, "old", store.Access{Read: true})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if b, err := io.ReadAll(io.NewSectionReader(h, 0, 10)); string(b) != "old" || err != nil {
		t.Errorf("read %q, %v", b, err)
	}
	if err := h.SetAttr(store.Attr{}); !errors.Is(err, fs.ErrPermission) {
		t.Error("attributes of an open file:", err)
	}
	if all, err := v.ReadDir(ctx, "."); len(all) != 1 || err != nil {
		t.Errorf("listed %v, %v", all, err)
	}
	if err := put(v, "mine", "x"); err != nil {
		t.Error(err)
	}
	if err := v.Rename(ctx, "mine", "ours", false); err != nil {
		t.Error("rename what is new:", err)
	}
	if err := v.Remove(ctx, "ours"); err != nil {
		t.Error("remove what is new:", err)
	}
}
