package store_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
)

// Users may finish the files that they have uploaded, and no other user may do so.
func TestUploadOnlyOwn(t *testing.T) {
	for name, open := range trees() {
		t.Run(name, func(t *testing.T) {
			behind := open(t)
			mine, other := store.UploadOnly(behind), store.UploadOnly(behind)
			ctx := t.Context()
			then := store.Attr{ModTime: time.Unix(1e9, 0)}
			bring := func(name string) {
				t.Helper()
				u, err := mine.Create(ctx, name, store.Create{})
				if err == nil {
					err = u.Commit()
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			bring("part")
			bring("taken")
			if err := mine.Mkdir(ctx, "d", 0); err != nil {
				t.Fatal(err)
			}
			for what, err := range map[string]error{
				"remove":  other.Remove(ctx, "part"),
				"rmdir":   other.RemoveDir(ctx, "d"),
				"rename":  other.Rename(ctx, "part", "x", false),
				"setattr": other.SetAttr(ctx, "part", then, true),
				"of d":    other.SetAttr(ctx, "d", then, true),
				"move d":  mine.Rename(ctx, "d", "e", false),
				"chown":   mine.SetAttr(ctx, "part", store.Attr{UID: new(uint32)}, true),
			} {
				wantError(t, what, err, fs.ErrPermission)
			}
			_, err := other.OpenFile(ctx, "part", store.Access{Write: true})
			wantError(t, "open another's", err, fs.ErrPermission)
			_, err = mine.OpenFile(ctx, "part", store.Access{Read: true})
			wantError(t, "read", err, fs.ErrPermission)
			h, err := mine.OpenFile(ctx, "part", store.Access{Write: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.WriteAt([]byte("more"), 0); err != nil {
				t.Error(err)
			}
			if err := h.Close(); err != nil {
				t.Error(err)
			}
			wantError(t, "replace", mine.Rename(ctx, "part", "taken", true), fs.ErrExist)
			wantError(t, "rename what is not there", mine.Rename(ctx, "none", "x", true), fs.ErrNotExist)
			for what, err := range map[string]error{
				"rename": mine.Rename(ctx, "part", "d/whole", true),
				"remove": mine.Remove(ctx, "taken"),
			} {
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			for _, name := range []string{"d/whole", "d"} {
				if err := mine.SetAttr(ctx, name, then, true); err != nil {
					t.Errorf("setattr of %s: %v", name, err)
				}
			}
			if fi, err := behind.Stat(ctx, "d/whole"); err != nil || fi.Size() != 4 || !fi.ModTime().Equal(then.ModTime) {
				t.Errorf("it is %v, %v", fi, err)
			}
			if err := mine.Remove(ctx, "d/whole"); err != nil {
				t.Error(err)
			}
			if err := mine.RemoveDir(ctx, "d"); err != nil {
				t.Error(err)
			}
		})
	}
}

// If a name has been given to another file, it no longer belongs to its first user.
func TestUploadOnlyReplaced(t *testing.T) {
	_, d := tempDir(t)
	u := store.UploadOnly(d)
	ctx := t.Context()
	h, err := u.OpenFile(ctx, "f", store.Access{Write: true, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close() // so that no other file gets its inode
	if err := d.Rename(ctx, "f", "elsewhere", false); err != nil {
		t.Fatal(err)
	}
	other, err := d.OpenFile(ctx, "f", store.Access{Write: true, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	wantError(t, "remove", u.Remove(ctx, "f"), fs.ErrPermission)
	wantError(t, "remove by a name that others gave it", u.Remove(ctx, "elsewhere"), fs.ErrPermission)
}

// A name that was given to another file does not belong to its first user even if the new file has
// the inode of the old one.
func TestUploadOnlyInodeAgain(t *testing.T) {
	for name, open := range trees() {
		t.Run(name, func(t *testing.T) {
			behind := open(t)
			ctx := t.Context()
			bring := func(u store.Tree) fs.FileInfo {
				t.Helper()
				h, err := u.OpenFile(ctx, "f", store.Access{Write: true, Create: true})
				if err != nil {
					t.Fatal(err)
				}
				defer h.Close()
				fi, err := h.Stat()
				if err != nil {
					t.Fatal(err)
				}
				return fi
			}
			again := false
			for range 5 { // some file systems reuse inode numbers, others never do
				mine, other := store.UploadOnly(behind), store.UploadOnly(behind)
				then := bring(mine)
				if err := behind.Remove(ctx, "f"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Millisecond) // birth times differ by ticks of the system's clock
				again = os.SameFile(then, bring(other)) || again
				wantError(t, "rename", mine.Rename(ctx, "f", "g", false), fs.ErrPermission)
				wantError(t, "remove", mine.Remove(ctx, "f"), fs.ErrPermission)
				if _, err := mine.OpenFile(ctx, "f", store.Access{Write: true}); !errors.Is(err, fs.ErrPermission) {
					t.Fatalf("another's file is opened: %v", err)
				}
				if err := other.Remove(ctx, "f"); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("an inode was used again: %v", again)
		})
	}
}

// If there are very many files, the view forgets the first ones, which then belong to no user.
func TestUploadOnlyForgets(t *testing.T) {
	m := store.Mem(0)
	u := store.UploadOnly(m)
	const files = 5000
	for i := range files {
		h, err := u.OpenFile(t.Context(), fmt.Sprint(i), store.Access{Write: true, Create: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wantError(t, "remove the first", u.Remove(t.Context(), "0"), fs.ErrPermission)
	if err := u.Remove(t.Context(), fmt.Sprint(files-1)); err != nil {
		t.Error(err)
	}
}
