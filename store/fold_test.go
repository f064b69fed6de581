package store_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
)

func fold(t testing.TB, s store.Store) store.Store {
	t.Helper()
	f, err := store.FoldCase(s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFoldCase(t *testing.T) {
	t.Run("Mem", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.Store { return fold(t, store.Mem(0)) })
	})
	t.Run("Dir", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.Store {
			_, d := tempDir(t)
			return fold(t, d)
		})
	})
	_, err := store.FoldCase(noLister{store.Mem(0)})
	wantError(t, "FoldCase of a store that cannot list", err, errors.ErrUnsupported)
}

var foldTree = []string{
	"Boot/Kernel", "Boot/x86/vmlinuz", "boot/menu", "f", "g.b", "G.B", "G.b", "É/ñ", "straße", "KELVIN",
	"deep/A/b/C/d", "Clash", "CLASH/x",
}

func TestFoldCaseNames(t *testing.T) {
	tests := []struct{ name, want string }{
		{"f", "f"},
		{"F", "f"},
		{"boot/menu", "boot/menu"},
		{"BOOT/KERNEL", "Boot/Kernel"}, // Boot is before boot in byte order
		{"BOOT/X86/VMLINUZ", "Boot/x86/vmlinuz"},
		{"BOOT/MENU", ""},   // it is in boot, not in Boot
		{"boot/kernel", ""}, // boot exists with exactly this name
		{"boot/MENU", "boot/menu"},
		{"g.b", "g.b"},
		{"G.b", "G.b"},
		{"g.B", "G.B"},
		{"é/Ñ", "É/ñ"},
		{"STRASSE", ""},           // characters are compared one by one
		{"\u212Aelvin", "KELVIN"}, // the Kelvin sign is equal to K
		{"DEEP/a/B/c/D", "deep/A/b/C/d"},
		{"deep/a/missing", ""},
		{"F/f", ""},
		{"clash", "CLASH/"},
		{"clash/X", "CLASH/x"},
		{"Clash/x", "CLASH/x"}, // Clash is a file, so it has no entries
		{"\ufffd", ""},
	}
	m := fold(t, memWith(t, "!", foldTree...))
	for _, tt := range tests {
		if dir, ok := strings.CutSuffix(tt.want, "/"); ok {
			_, err := m.Open(t.Context(), tt.name)
			wantError(t, tt.name, err, store.ErrNotRegular)
			wantNames(t, m, dir, "x")
			wantNames(t, m, tt.name, "x")
			continue
		}
		if tt.want == "" {
			_, err := m.Open(t.Context(), tt.name)
			wantError(t, tt.name, err, fs.ErrNotExist)
			if err != nil && !strings.Contains(err.Error(), tt.name) {
				t.Errorf("error %q does not name %q", err, tt.name)
			}
			_, err = m.Stat(t.Context(), tt.name)
			wantError(t, tt.name, err, fs.ErrNotExist)
			continue
		}
		wantContent(t, m, tt.name, tt.want+" !")
	}
}

func TestFoldCaseCreate(t *testing.T) {
	tests := []struct{ name, want string }{
		{"f", "f"},
		{"F", "f"},
		{"BOOT/NEW", "Boot/NEW"},
		{"boot/new", "boot/new"},
		{"BOOT/kernel", "Boot/Kernel"},
		{"NEW/dir/F", "NEW/dir/F"},
		{"deep/a/NEW/x", "deep/A/NEW/x"},
	}
	for _, tt := range tests {
		m := memWith(t, "!", foldTree...)
		if err := upload(t, fold(t, m), tt.name, "new", store.Create{}); err != nil {
			t.Error(err)
		}
		wantContent(t, m, tt.want, "new")
	}
	m := fold(t, memWith(t, "!", foldTree...))
	for _, name := range []string{"F", "BOOT", "boot/MENU"} {
		_, err := m.Create(t.Context(), name, store.Create{Exclusive: true})
		wantError(t, "exclusive create of "+name, err, fs.ErrExist)
	}
	if err := upload(t, m, "NEW", "x", store.Create{Exclusive: true}); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"", "../F", "/F", "F\x00"} {
		_, err := m.Create(t.Context(), name, store.Create{})
		wantError(t, "create of a bad name", err, fs.ErrInvalid)
	}
}

func TestFoldCaseDepth(t *testing.T) {
	deepest := strings.Repeat("d/", store.MaxFoldDepth-1) + "f"
	m := fold(t, memWith(t, "!", deepest, "d/"+deepest))
	wantContent(t, m, strings.ToUpper(deepest), deepest+" !")
	wantContent(t, m, "d/"+deepest, "d/"+deepest+" !")
	_, err := m.Open(t.Context(), strings.ToUpper("d/"+deepest))
	wantError(t, "a name that is too deep", err, fs.ErrNotExist)
}

// TestFoldCaseCost counts the calls for a name that exists exactly.
func TestFoldCaseCost(t *testing.T) {
	c := &counting{Tree: memWith(t, "!", foldTree...)}
	m := fold(t, c)
	f, err := m.Open(t.Context(), "Boot/Kernel")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if c.calls != 1 {
		t.Errorf("%d calls for a name that is there, want 1", c.calls)
	}
	c.lists = 0
	if _, err := m.Open(t.Context(), "Boot/x86/VMLINUZ"); err != nil {
		t.Error(err)
	}
	if c.lists != 1 {
		t.Errorf("%d directories listed for one element that differs", c.lists)
	}
}

// A counting store counts calls.
type counting struct {
	store.Tree
	calls, lists int
}

func (c *counting) Open(ctx context.Context, name string) (store.File, error) {
	c.calls++
	return c.Tree.Open(ctx, name)
}

func (c *counting) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	c.calls++
	return c.Tree.Stat(ctx, name)
}

func (c *counting) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	c.calls++
	c.lists++
	return c.Tree.ReadDir(ctx, name)
}
