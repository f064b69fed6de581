package openssh

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSplitArgs(t *testing.T) {
	tests := []struct{ in, want string }{
		{``, `[]`},
		{`a b`, `["a" "b"]`},
		{` a	 "b c" `, `["a" "b c"]`},
		{`a"b c"d`, `["ab cd"]`},
		{`'a"b' "c'd"`, `["a\"b" "c'd"]`},
		{`a\ b \"c\" \\ \x`, `["a b" "\"c\"" "\\" "\\x"]`},
		{`"a\ b" "a\"b"`, `["a\\ b" "a\"b"]`},
		{`a#b #c d`, `["a#b"]`},
		{`"#a"`, `["#a"]`},
		{`""`, `[""]`},
		{`"a`, `error`},
		{`a'b`, `error`},
		{`a\`, `["a\\"]`},
	}
	for _, test := range tests {
		args, err := splitArgs(test.in)
		got := fmt.Sprintf("%q", args)
		if err != nil {
			got = "error"
		}
		if got != test.want {
			t.Errorf("%s: got %s, want %s", test.in, got, test.want)
		}
	}
}

func TestMatchList(t *testing.T) {
	tests := []struct {
		s, list string
		want    bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"a", "*", true}, {"", "*", true}, {"a", "?", true}, {"ab", "?", false},
		{"abc", "a*c", true}, {"abcb", "a*c", false}, {"aXbXc", "*X*c", true}, {"a", "a*", true}, {"a", "a?", false},
		{"a", "!a,*", false}, {"b", "!a,*", true}, {"b", "!a", false}, {"a", "", false}, {"a", "b,,a", true}, {"a", "!", false},
		{"[h]:22", "[h]:*", true},
	}
	for _, test := range tests {
		if got := matchList(test.s, test.list); got != test.want {
			t.Errorf("%q in %q: %v", test.s, test.list, got)
		}
	}
}

func TestParseTime(t *testing.T) {
	tests := []struct {
		in   string
		want time.Duration // -1 for an error
	}{
		{"0", 0}, {"none", 0}, {"90", 90 * time.Second}, {"1m30s", 90 * time.Second}, {"1M30", 90 * time.Second},
		{"1w2d3h", (9*24 + 3) * time.Hour}, {"2147483647", maxTime}, {"2147483648", -1}, {"35792w", -1},
		{"", -1}, {"-1", -1}, {"s", -1}, {"1x", -1}, {"1 m", -1}, {"9999999999999", -1},
	}
	for _, test := range tests {
		got, err := parseTime(test.in)
		if err != nil {
			got = -1
		}
		if got != test.want {
			t.Errorf("%q: got %v, want %v", test.in, got, test.want)
		}
	}
}

func TestParseTarget(t *testing.T) {
	tests := []struct{ in, want string }{
		{"h", "h"}, {"u@h", "u@h"}, {"u@h:7", "u@[h]:7"}, {"h:22", "h"}, {"u@v@h", "u@v@h"},
		{"::1", "::1"}, {"[::1]", "::1"}, {"[::1]:7", "[::1]:7"}, {"fe80::1%eth0", "fe80::1%eth0"}, {"u@[fe80::1%eth0]:7", "u@[fe80::1%eth0]:7"},
		{"ssh://u@h:7", "u@[h]:7"}, {"SFTP://h/", "h"}, {"ssh://u%40v@h", "u@v@h"}, {"dom\\u@h", "dom\\u@h"}, {"$u@h", "$u@h"}, {"bücher.example", "bücher.example"},
		{"", "error"}, {"@h", "error"}, {"u@", "error"}, {"h:", "error"}, {"h:0", "error"}, {"h:65536", "error"}, {"h:+1", "error"},
		{"[::1", "error"}, {"[::1]x", "error"}, {"[0:1]", "error"}, {"[h:1]:7", "error"}, {"[h]:7", "[h]:7"}, {"ssh://h/path", "error"}, {"ssh://%zz@h", "error"},
		{"-h", "error"}, {"-oX@h", "error"}, {"a b", "error"}, {"a`b", "error"}, {"a$b", "error"}, {"a\nb", "error"}, {"a|b", "error"}, {"a/b", "error"}, {"a%b", "error"}, {"fe80::1%a b", "error"}, {"a\u202eb", "error"},
		{"u\n@h", "error"}, {"u;x@h", "error"}, {"a -b@h", "error"}, {"u\\@h", "error"}, {"ssh://u%0a@h", "error"}, {"u\x00@h", "error"},
	}
	for _, test := range tests {
		target, err := ParseTarget(test.in)
		got := target.String()
		if err != nil {
			got = "error"
		}
		if got != test.want {
			t.Errorf("%q: got %s (%v), want %s", test.in, got, err, test.want)
		}
	}
}

func TestPrintable(t *testing.T) {
	tests := []struct{ in, want string }{
		{"plain ü\n\tx", "plain ü\n\tx"},
		{"\x1b[31mred\a", `\x1b[31mred\x07`},
		{"a\r\nb\rc", "a\nb\\x0dc"},
		{"x\u202ey", `x\u202ey`},
		{"\xff", `\xff`},
		{strings.Repeat("a", maxServerText+1), strings.Repeat("a", maxServerText) + "…"},
	}
	for _, test := range tests {
		if got := printable(test.in); got != test.want {
			t.Errorf("%q: got %q", test.in, got)
		}
	}
}

// All defaults are strong, and x/crypto/ssh has them.
func TestDefaultAlgorithms(t *testing.T) {
	for _, list := range []struct{ ours, strong, weak []string }{
		{defaultKeyExchanges, secure.KeyExchanges, insecure.KeyExchanges},
		{defaultCiphers, secure.Ciphers, insecure.Ciphers},
		{defaultMACs, secure.MACs, insecure.MACs},
		{defaultHostKeyAlgorithms, secure.HostKeys, insecure.HostKeys},
		{defaultSignatures, secure.PublicKeyAuths, insecure.PublicKeyAuths},
	} {
		for _, a := range list.ours {
			if !slices.Contains(list.strong, a) || slices.Contains(list.weak, a) || strings.HasSuffix(a, "sha1") {
				t.Errorf("%s is weak, or not there", a)
			}
		}
	}
	if defaultKeyExchanges[0] != "mlkem768x25519-sha256" {
		t.Errorf("%s comes first", defaultKeyExchanges[0])
	}
	for _, a := range defaultPublicKeyAlgorithms {
		plain, cert := plainAlgorithm(a)
		if !slices.Contains(defaultSignatures, plain) || cert == slices.Contains(defaultSignatures, a) {
			t.Errorf("%s is of %s, %v", a, plain, cert)
		}
	}
}
