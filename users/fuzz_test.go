package users_test

import (
	"bytes"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/users"
	"golang.org/x/crypto/ssh"
)

// A line that is accepted as a key is also accepted by x/crypto/ssh, with the same key and comment,
// and is read back unchanged.
func FuzzParseKey(f *testing.F) {
	plain := line("", newSigner(f).PublicKey())
	for _, s := range []string{
		plain, plain + " a comment", "restrict " + plain, `from="10.*,!10.1.*",command="internal-sftp -R" ` + plain,
		`cert-authority,principals="a,b" ` + plain, `environment="A=\"b\"" ` + plain, `expiry-time="20270101Z",no-touch-required ` + plain,
		line("", fakeRSA(f, 2048)), line("", fakeRSA(f, 512)), line("", fakeDSA(f)), "# x", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		k, err := users.ParseKey(s)
		if err != nil {
			if k.Public != nil || k.String() != "" {
				t.Errorf("a key beside the error %v", err)
			}
			return
		}
		if err := users.CheckKey(k.Public); err != nil {
			t.Error(err)
		}
		again, err := users.ParseKey(k.String())
		if err != nil || again.String() != k.String() || again.Comment != k.Comment || again.Fingerprint() != k.Fingerprint() {
			t.Errorf("%q is read again as %+v, %v", k, again, err)
		}
		theirs, comment, options, _, err := ssh.ParseAuthorizedKey([]byte(k.String()))
		if err != nil {
			t.Fatalf("x/crypto/ssh reads %q as %v", s, err)
		}
		if !bytes.Equal(theirs.Marshal(), k.Public.Marshal()) || strings.TrimRight(comment, " \t") != strings.TrimRight(k.Comment, " \t") {
			t.Errorf("x/crypto/ssh reads %q as %s with %q and %q, we as %s with %q", s, ssh.FingerprintSHA256(theirs), options, comment, k.Fingerprint(), k.Comment)
		}
	})
}

// Users can be added to, changed in and removed from the text of every valid users file. No file is
// written: on a slow disk a text with many users would take more than the 10 s after which go test
// gives an input up.
func FuzzUsersFile(f *testing.F) {
	k := line("", newSigner(f).PublicKey())
	h := hash(f, "secret")
	for _, s := range []string{
		"user alice\n", edited, strings.ReplaceAll(edited, "OLD", h.Encoded()), "root srv/%u\naccess read-only\nuser a\n key " + k + "\n  disabled\nuser b",
		"authority " + k + "\nauthorities x\nrevoked y\nlimit 1k\nfrom 10.0.0.0/8\nrequire any\nkeys %u\n", "#\r\n\r\nuser\ta\r\n\tkey restrict " + k, "user user\nuser x\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, original string) {
		text := original
		before, err := users.ParseText(text)
		if err != nil {
			return
		}
		for _, u := range before {
			if err := users.CheckName(u.Name); err != nil {
				t.Error(err)
			}
			if strings.Contains(u.Root, "..") && !filepath.IsLocal(u.Root) && !filepath.IsAbs(u.Root) {
				t.Errorf("root %q", u.Root)
			}
		}
		const name = "somebody_new"
		text, err = users.AddIn(text, users.User{Name: name})
		if err != nil {
			if strings.Contains(strings.ToLower(original), name) {
				return
			}
			t.Fatal(err)
		}
		set := func(name string, password users.Hash) {
			if text, err = users.SetPasswordIn(text, name, password); err != nil {
				t.Fatal(err)
			}
		}
		for _, password := range []users.Hash{h, {}, h} {
			set(name, password)
		}
		const most = 100 // users whose password is set: each change parses the whole text
		for _, u := range before[:min(len(before), most)] {
			set(u.Name, h)
		}
		after, err := users.ParseText(text)
		if err != nil || len(after) != len(before)+1 {
			t.Fatalf("%d users have become %d, %v", len(before), len(after), err)
		}
		for i, u := range after {
			want := h
			if most <= i && i < len(before) {
				want = before[i].Password
			}
			if u.Password.Encoded() != want.Encoded() {
				t.Errorf("user %s has not got the password", u.Name)
			}
			if i < len(before) && (u.Name != before[i].Name || len(u.Keys) != len(before[i].Keys) || u.Root != before[i].Root || u.Disabled != before[i].Disabled || u.Access != before[i].Access) {
				t.Errorf("user %+v has become %+v", before[i], u)
			}
		}
		if text, err = users.RemoveIn(text, name); err != nil {
			t.Fatal(err)
		}
		if after, err = users.ParseText(text); err != nil || len(after) != len(before) {
			t.Errorf("%d users have become %d, %v", len(before), len(after), err)
		}
	})
}

// A hash is refused, or the cost of computing it is bounded.
func FuzzParseHash(f *testing.F) {
	for _, s := range []string{cheap(f, "x"), argon("x", 8, 1, 1, 8, 16), "$argon2id$v=19$m=131072,t=4,p=16$c29tc2FsdA$" + strings.Repeat("A", 22), "$2b$14$" + strings.Repeat(".", 53)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := users.ParseHash(s)
		if err != nil {
			if !h.IsZero() {
				t.Errorf("a hash beside the error %v", err)
			}
			return
		}
		if h.Encoded() != s || h.IsZero() || strings.ContainsAny(s, " \t\r\n") || len(s) > 300 {
			t.Errorf("%q is a hash", s)
		}
	})
}

// An address that from= allows is refused once it is also excluded.
func FuzzFrom(f *testing.F) {
	f.Add("10.*,!10.1.*", "10.2.3.4")
	f.Add("192.0.2.0/24,2001:db8::/32", "2001:db8::1")
	f.Add("*", "::ffff:1.2.3.4")
	f.Fuzz(func(t *testing.T, patterns, address string) {
		a, notAddr := netip.ParseAddr(address)
		ps, err := users.FromAny(patterns)
		if err != nil || notAddr != nil {
			return
		}
		in := users.FromMatches(ps, a)
		more, err := users.FromAny(patterns + ",!" + a.Unmap().WithZone("").String())
		if err != nil {
			t.Fatal(err)
		}
		if users.FromMatches(more, a) {
			t.Errorf("%q lets in %v, which it forbids (before: %v)", patterns, a, in)
		}
	})
}
