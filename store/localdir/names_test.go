package localdir_test

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/haul-project/haul/store"
)

// FuzzNames checks that no name reads, describes or changes anything outside the root, in a tree
// with links that lead outside.
func FuzzNames(f *testing.F) {
	for _, name := range outsideNames {
		f.Add(name)
	}
	for _, name := range []string{
		"f", "d/f", "to-f", "to-e/up-f", "to-new", "to-self", "d/new", ".", "", "/", "..", "../secret", "/etc/passwd",
		"d/../../secret", "d/./f", "f/", "f\x00", "..\\secret", "C:\\secret", "C:f", "%2e%2e/secret", "d//f",
		"to-e/../f", "..\xc0\xaf", "\uff0e\uff0e/secret", "out\x00/secret", ".haul-ABCDEFGHIJKLMNOPQRSTUVWXYZ.part",
		"NUL", "f:stream", "f::$DATA",
	} {
		f.Add(name)
	}
	outer := memoryDir(f)
	inner := fillLinked(f, outer)
	d := dirAt(f, inner)
	outside := outsideListing(f, outer)
	f.Fuzz(func(t *testing.T, name string) {
		if f, err := d.Open(t.Context(), name); err == nil {
			b, err := io.ReadAll(io.NewSectionReader(f, 0, 1000))
			if string(b) != "inside" {
				t.Errorf("Open(%q) reads %q, %v", name, b, err)
			}
			f.Close()
		}
		if fi, err := d.Stat(t.Context(), name); err == nil && fi.Mode().IsRegular() && fi.Size() != int64(len("inside")) {
			t.Errorf("Stat(%q) has size %d, that of no file inside", name, fi.Size())
		}
		_, err := os.Lstat(filepath.Join(inner, name))
		fresh := err != nil
		if upload(t, d, name, "inside", store.Create{Size: 3}) == nil && fresh {
			os.Remove(filepath.Join(inner, name))
		}
		if now := outsideListing(t, outer); !slices.Equal(now, outside) {
			t.Errorf("Create(%q) changed what is outside from %q to %q", name, outside, now)
		}
		wantNoTemps(t, inner)
	})
}

// outsideListing lists the content of outer, without its directory "inner".
func outsideListing(t testing.TB, outer string) []string {
	inner := filepath.Join(outer, "inner")
	return slices.DeleteFunc(listing(t, outer), func(s string) bool {
		return len(s) > len(inner) && s[:len(inner)+1] == inner+string(filepath.Separator)
	})
}
