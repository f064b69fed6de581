package store

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"unicode/utf8"
)

func TestCleanName(t *testing.T) {
	tests := []struct{ name, want string }{ // an empty want means that the name is refused
		{"a", "a"},
		{"/a", "a"},
		{"///a//b/", "a/b"},
		{"./a/./b", "a/b"},
		{`\boot\bcd`, "boot/bcd"},
		{"a..b", "a..b"},
		{"...", "..."},
		{"..", ""},
		{"../a", ""},
		{"a/../b", ""},
		{`a\..\..\b`, ""},
		{"/..", ""},
		{"", ""},
		{"/", ""},
		{".", ""},
		{`\`, ""},
	}
	for _, test := range tests {
		got, err := CleanName(test.name)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("CleanName(%q) = %q, %v, want %q", test.name, got, err, test.want)
		}
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			t.Errorf("CleanName(%q): %v is no fs.ErrPermission", test.name, err)
		}
	}
}

// A name that CleanName returns is valid for io/fs, unless it is not UTF-8, in which case no such
// file system accepts it.
func FuzzCleanName(f *testing.F) {
	for _, s := range []string{"a", "/a//b", `\..\b`, "a/./..", "", "..a/..", "a\x00b", "\xff/x"} {
		f.Add(s)
	}
	st := Mem(0)
	f.Fuzz(func(t *testing.T, name string) {
		got, err := CleanName(name)
		if err != nil {
			if !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%q is refused by %v", name, err)
			}
			return
		}
		if utf8.ValidString(name) && (!fs.ValidPath(got) || got == ".") {
			t.Errorf("%q became %q", name, got)
		}
		if again, err := CleanName(got); err != nil || again != got {
			t.Errorf("%q became %q, and that %q (%v)", name, got, again, err)
		}
		if _, err := st.Open(context.Background(), got); err == nil {
			t.Errorf("%q opened something in an empty store", name)
		}
	})
}
