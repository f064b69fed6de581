package users_test

import (
	"strings"
	"testing"

	"github.com/haul-project/haul/users"
)

// A change affects only the statement that it sets or removes. Comments, the order, and the form of
// all other statements stay the same.
func TestChanges(t *testing.T) {
	mine, other := newSigner(t).PublicKey(), newSigner(t).PublicKey()
	a, b := line("", mine), line(`from="10.0.0.0/8"`, other)
	start := "# all\nlimit 1MiB\n\nuser alice\n\t# hers\n\tkey " + a + "\n\troot x\n# next\nuser bob\n  access read-only\n"
	which := func(fingerprint string) func(users.Key) bool {
		return func(k users.Key) bool { return k.Fingerprint() == fingerprint }
	}
	for _, test := range []struct {
		name     string
		do       func(file string) error
		from, to string // the replaced text and its replacement
		err      string
	}{
		{"set", func(f string) error {
			return users.Set(t.Context(), f, "alice", users.Setting{Keyword: "root", Value: "/srv/%u"})
		}, "\troot x\n", "\troot /srv/%u\n", ""},
		{"set anew", func(f string) error {
			return users.Set(t.Context(), f, "bob", users.Setting{Keyword: "from", Value: "10.0.0.0/8"})
		},
			"  access read-only\n", "  access read-only\n  from 10.0.0.0/8\n", ""},
		{"set several", func(f string) error {
			return users.Set(t.Context(), f, "bob", users.Setting{Keyword: "access", Value: "full"}, users.Setting{Keyword: "limit", Value: "2MiB"})
		}, "  access read-only\n", "  access full\n  limit 2MiB\n", ""},
		{"unset", func(f string) error { return users.Set(t.Context(), f, "alice", users.Setting{Keyword: "root"}) }, "\troot x\n", "", ""},
		{"disable", func(f string) error { return users.SetDisabled(t.Context(), f, "bob", true) }, "read-only\n", "read-only\n  disabled\n", ""},
		{"enable who is", func(f string) error { return users.SetDisabled(t.Context(), f, "bob", false) }, "", "", ""},
		{"add a key", func(f string) error {
			return users.AddKeys(t.Context(), f, "alice", key(t, `from="10.0.0.0/8"`, other))
		}, a + "\n", a + "\n\tkey " + b + "\n", ""},
		{"add the first key", func(f string) error { return users.AddKeys(t.Context(), f, "bob", key(t, "", mine)) }, "read-only\n", "read-only\n  key " + a + "\n", ""},
		{"add a key twice", func(f string) error { return users.AddKeys(t.Context(), f, "alice", key(t, "no-pty", mine)) }, "", "", "already"},
		{"remove a key", func(f string) error {
			return users.RemoveKeys(t.Context(), f, "alice", which(key(t, "", mine).Fingerprint()))
		}, "\tkey " + a + "\n", "", ""},
		{"remove another's key", func(f string) error {
			return users.RemoveKeys(t.Context(), f, "bob", which(key(t, "", mine).Fingerprint()))
		}, "", "", "no such key"},
		{"a bad value", func(f string) error {
			return users.Set(t.Context(), f, "bob", users.Setting{Keyword: "access", Value: "some"})
		}, "", "", "would be wrong"},
		{"two lines", func(f string) error {
			return users.Set(t.Context(), f, "bob", users.Setting{Keyword: "root", Value: "x\nuser eve"})
		}, "", "", "line break"},
		{"a password", func(f string) error {
			return users.Set(t.Context(), f, "bob", users.Setting{Keyword: "password", Value: "x"})
		}, "", "", "cannot be set"},
		{"nobody", func(f string) error { return users.SetDisabled(t.Context(), f, "eve", true) }, "", "", "no user eve"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, ending := range []string{"\n", "\r\n"} {
				file := write(t, t.TempDir(), "users", strings.ReplaceAll(start, "\n", ending))
				err := test.do(file)
				if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
					t.Fatalf("%v, want %q", err, test.err)
				}
				want := strings.ReplaceAll(strings.Replace(start, test.from, test.to, 1), "\n", ending)
				if got := content(t, file); got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
				open(t, file)
			}
		})
	}
}
