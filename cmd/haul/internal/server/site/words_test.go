package site_test

import (
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/site"
)

func TestParseMatch(t *testing.T) {
	tests := []struct{ in, want string }{
		{"*", "*"},
		{"10.0.0.0/8", "10.0.0.0/8"},
		{"0.0.0.0/0", "0.0.0.0/0"},
		{"192.0.2.7", "192.0.2.7"},
		{"192.0.2.7/32", "192.0.2.7"},
		{"::ffff:192.0.2.7", "192.0.2.7"},
		{"2001:DB8::/32,::1", "2001:db8::/32,::1"},
		{"52:54:00:12:34:56", "52:54:00:12:34:56"},
		{"52-54-00-AB-cd-56", "52:54:00:ab:cd:56"},
		{"on=192.0.2.1", "on=192.0.2.1"},
		{"on=:6969", "on=:6969"},
		{"on=192.0.2.1:69", "on=192.0.2.1:69"},
		{"on=2001:db8::1", "on=2001:db8::1"},
		{"on=[2001:db8::1]:69", "on=[2001:db8::1]:69"},
		{"on=::1,52:54:00:12:34:56,10.0.0.0/8", "10.0.0.0/8,52:54:00:12:34:56,on=::1"},
	}
	for _, test := range tests {
		m, err := site.ParseMatch(test.in)
		if err != nil || m.String() != test.want || m.IsZero() != (test.in == "*") {
			t.Errorf("%s: %v, %v", test.in, m, err)
		}
	}
}

func TestParseMatchFaults(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", "for everybody write *"},
		{"10.0.0.0/8,", "nothing between two commas"},
		{"*,10.0.0.1", "* is everybody and stands alone"},
		{"10.0.0.1/8", `"10.0.0.1/8": it has bits set beyond the first 8; write 10.0.0.0/8 for the network, or 10.0.0.1 for that address alone`},
		{"10.0.0.0/33", "is no network; write it like 10.0.0.0/8"},
		{"10.0.0/8", "is no network"},
		{"::ffff:10.0.0.0/104", "write an IPv4 network"},
		{"fe80::1%eth0", "leave out %eth0"},
		{"fe80::%eth0/10", "is no network"},
		{"example.com", `"example.com" is no network (10.0.0.0/8), address (192.0.2.7), hardware address`},
		{"52:54:00:12:34", "is no network"},
		{"52:54-00:12:34:56", "is no network"},
		{"52.54.00.12.34.56", "is no network"},
		{"5x:54:00:12:34:56", "is no network"},
		{"01-52-54-00-12-34-56", "is no network"},
		{" 10.0.0.1", "is no network"},
		{"on=", "write on=192.0.2.1, on=:69"},
		{"on=:", `"" is no port`},
		{"on=:0", "they go from 1 to 65535"},
		{"on=:65536", "is no port"},
		{"on=192.0.2.1:tftp", `"tftp" is no port`},
		{"on=eth0", "write on=192.0.2.1"},
		{"on=0.0.0.0", "write on=:PORT for any address"},
		{"on=[::]:69", "write on=:PORT for any address"},
		{"on=fe80::1%eth0", "leave out %eth0"},
		{strings.Repeat("10.0.0.1,", 1024) + "10.0.0.1", "more than 1024 alternatives"},
	}
	for _, test := range tests {
		if _, err := site.ParseMatch(test.in); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.40q: %v; want %q", test.in, err, test.want)
		}
	}
}

func TestParseRule(t *testing.T) {
	tests := []struct{ in, want string }{
		{"allow read 10.0.0.0/8 /boot/**", "allow read 10.0.0.0/8 /boot/**"},
		{" deny\twrite  * *", "deny write * *"},
		{"deny all on=:69,192.0.2.0/24", "deny all 192.0.2.0/24,on=:69"},
	}
	for _, test := range tests {
		if r, err := site.ParseRule(test.in); err != nil || r.String() != test.want {
			t.Errorf("%q: %v, %v", test.in, r, err)
		}
	}
	for _, test := range []struct{ in, want string }{
		{"", `has 0 words: write "allow" or "deny"`},
		{"allow read", "has 2 words"},
		{"allow read * /a b", "has 5 words"},
		{"permit read *", `"permit": write "allow" or "deny"`},
		{"Allow read *", `"Allow": write`},
		{"allow get *", `"get": write`},
		{"allow read all", `match "all": "all" is no network`},
		{"allow read * /boot/[a", `pattern "/boot/[a"`},
	} {
		if _, err := site.ParseRule(test.in); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v; want %q", test.in, err, test.want)
		}
	}
}

func TestParsePatternFaults(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", "not UTF-8 of 1 to 1024 bytes"},
		{"\xff", "not UTF-8"},
		{strings.Repeat("x", 1025), "not UTF-8 of 1 to 1024 bytes"},
		{strings.Repeat("x/", 64), "more than 64 elements"},
		{"a//b", `no element ""`},
		{"//", `no element ""`},
		{"/a/../b", `no element ".."`},
		{"./b", `no element "."`},
		{"a**", "** stands alone"},
		{"/a/**b", "** stands alone"},
		{"[a", "a [ without ]"},
		{`a\`, "ends in"},
		{"[]", "a [ without ]"},
		{"[Z-a]", "within a-z, A-Z or 0-9"},
		{"[_-z]", "within a-z, A-Z or 0-9"},
		{`[x\_-z]`, "within a-z, A-Z or 0-9"},
		{`[^a-\}]`, "within a-z, A-Z or 0-9"},
		{"[9-0]", "within a-z, A-Z or 0-9"},
	}
	for _, test := range tests {
		if _, err := site.ParsePattern(test.in); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.40q: %v; want %q", test.in, err, test.want)
		}
	}
}

func TestPatterns(t *testing.T) {
	tests := []struct {
		pattern  string
		yes, not string // names, separated by spaces
	}{
		{"*", "a a/b .x", ""},
		{"/*", "a .x", "a/b"},
		{"*.key", "a.key d/a.key d/e/.key", "a.key/b a.keys"},
		{"/*.key", "a.key", "d/a.key"},
		{"boot/*", "boot/a", "boot boot/a/b x/boot/a"},
		{"/boot/**", "boot boot/a boot/a/b", "boots/a x/boot/a"},
		{"/boot/", "boot boot/a boot/a/b", "boots/a"},
		{"/**/x", "x a/x a/b/x", "x/a xx"},
		{"/a/**/b/**/c", "a/b/c a/x/b/y/z/c a/b/b/c/c", "a/c a/b a/b/c/d"},
		{"/**", "a a/b", ""},
		{"/a?c", "abc a-c aäc", "ac abbc"},
		{"[a-c][^0-9]", "ax bb d/cc", "a1 dx"},
		{`\*[\]x]`, "*] *x", "a]"},
		{"/**/a/b", "a/b a/a/b a/a/a/b", "a a/b/a"},
	}
	for _, test := range tests {
		s := &site.Site{Roots: []site.Root{{Files: mem(t, "")}}, Access: rules(t, "allow read * "+test.pattern, "deny all *")}
		try := func(name string) bool {
			got := read(t, s, client("10.0.0.1"), name)
			return got == "not found"
		}
		for name := range strings.FieldsSeq(test.yes) {
			if !try(name) {
				t.Errorf("%s does not match %s", test.pattern, name)
			}
		}
		for name := range strings.FieldsSeq(test.not) {
			if try(name) {
				t.Errorf("%s matches %s", test.pattern, name)
			}
		}
	}
	var zero site.Pattern
	if p, err := site.ParsePattern("/a/"); err != nil || p.String() != "/a/" || zero.String() != "*" {
		t.Error(p, zero, err)
	}
}

func TestParsePolicies(t *testing.T) {
	for _, s := range []string{"none", "create", "overwrite", "unique"} {
		if p, err := site.ParsePolicy(s); err != nil || p.String() != s {
			t.Error(s, p, err)
		}
	}
	if _, err := site.ParsePolicy("yes"); err == nil || err.Error() != `upload policy "yes": write one of none, create, overwrite, unique` {
		t.Error(err)
	}
	for _, s := range []string{"none", "ip", "mac"} {
		if p, err := site.ParsePerClient(s); err != nil || p.String() != s {
			t.Error(s, p, err)
		}
	}
	if _, err := site.ParsePerClient("IP"); err == nil || err.Error() != `per-client directories "IP": write one of none, ip, mac` {
		t.Error(err)
	}
	if site.Policy(9).String() != "policy 9" || site.PerClient(9).String() != "per-client kind 9" {
		t.Error("names of what there is not")
	}
}

func FuzzParseMatch(f *testing.F) {
	for _, s := range []string{"*", "10.0.0.0/8,::1", "52:54:00:12:34:56", "on=192.0.2.1", "on=:6969", "on=[2001:db8::1]:69", "on=::1", "1.2.3.4/33"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := site.ParseMatch(s)
		if err != nil {
			return
		}
		again, err := site.ParseMatch(m.String())
		if err != nil || again.String() != m.String() {
			t.Errorf("%q is written %q, and that read as %q, %v", s, m, again, err)
		}
	})
}

func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"allow read 10.0.0.0/8 /boot/**", "deny write * *", "deny all ::1 [a-z]?\\**", "allow read * /a/**/b/"} {
		f.Add(s, "boot/a/b")
	}
	f.Fuzz(func(t *testing.T, s, name string) {
		r, err := site.ParseRule(s)
		if err != nil {
			return
		}
		again, err := site.ParseRule(r.String())
		if err != nil || again.String() != r.String() {
			t.Errorf("%q is written %q, and that read as %q, %v", s, r, again, err)
		}
		// A rule that matches a name also matches it if case is ignored.
		who := client("10.0.0.1")
		denied := func(r site.Rule, fold bool) bool {
			s := &site.Site{Roots: []site.Root{{Files: noFiles{}}}, FoldCase: fold, Access: append([]site.Rule{r}, rules(t, "deny all *")...)}
			_, err := s.Open(t.Context(), who, name)
			return explain(t, err) == "refused: access denied"
		}
		r.Deny, r.Read = false, true
		if !denied(r, false) && denied(r, true) {
			t.Errorf("%q matches %q, but not without regard to case", r, name)
		}
	})
}
