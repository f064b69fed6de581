package remap_test

import (
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/tftp/remap"
)

// asTftpdHPA lists results from the log of tftp-hpa 5.2's in.tftpd, on Debian 12 with glibc. The
// cases in which this package differs on purpose are in TestAgainstTheManual.
var asTftpdHPA = []struct {
	file, name string
	write      bool
	want       string
}{
	{`rg \\ /`, `boot\x\y`, false, "boot/x/y"},
	{`rg \\ /`, "a", false, "a"},
	{`rg \\ /`, `\\srv\f`, false, "//srv/f"},
	{"rg \\\\ /\nr ^/*(.*)$ /tftpboot/\\1\n", `boot\x`, false, "/tftpboot/boot/x"},
	{"rg \\\\ /\nr ^/*(.*)$ /tftpboot/\\1\n", "///a/b", false, "/tftpboot/a/b"},
	{`r (.*) \L\1`, "BOOT/PXELINUX.0", false, "boot/pxelinux.0"},
	{`r (.*) \L\1`, "é/ABC", false, "é/abc"},
	{`r ^(.)(.*)$ \U\1\E-\2-\U\2`, "abcDef", false, "A-bcDef-BCDEF"},
	{`r ^ \i/`, "f", false, "127.0.0.1/f"},
	{`r ^ \x/`, "f", false, "7F000001/f"},
	{"a ^secret Go_away\nr ^ x/\n", "open", false, "x/open"},
	{"a ^secret\nr ^ x/\n", "open", false, "x/open"},
	{`aG \.key$ no\ keys`, "b", false, "b"},
	{"P ^ \nrP ^ up/\nrG ^ down/\n", "f", false, "down/f"},
	{"rP ^ up/\nrG ^ down/\n", "f", true, "up/f"},
	{"re ^a b\nr b c\n", "abc", false, "bbc"},
	{"re ^a b\nr b c\n", "bbc", false, "cbc"},
	{"ri ABC x", "zabcz", false, "zxz"},
	{"e ^x\nr ^ y/\n", "x1", false, "x1"},
	{"e ^x\nr ^ y/\n", "z1", false, "y/z1"},
	{"~e ^x\nr ^ y/\n", "x1", false, "y/x1"},
	{"~e ^x\nr ^ y/\n", "z1", false, "z1"},
	{"r a b # comment\n# whole\n   \nr c#d e\n", "aac", false, "ba"},
	{"r a b # comment\n# whole\n   \nr c#d e\n", "cab", false, "bb"},
	{`r a\ b x\ y`, "a b", false, "x y"},
	{`r a\ b x\ y`, "ab", false, "ab"},
	{`r \# X`, "a#b", false, "aXb"},
	{`r [\ ] _`, "a b", false, "a_b"},
	{`r [\ ] _`, `a\b`, false, "a_b"},
	{`r [\.] _`, "a.b", false, "a_b"},
	{`r [\.] _`, `a\b`, false, "a_b"},
	{"r []x] _", "a]b", false, "a_b"},
	{"r []x] _", "axb", false, "a_b"},
	{"r [^]x] _", "]xb", false, "]x_"},
	{"r [a-c-] _", "x-", false, "x_"},
	{"r [a-c-] _", "xb", false, "x_"},
	{"r [%--] _", "x-", false, "x_"},
	{"r [%--] _", "x&", false, "x_"},
	{"r [%--] _", "x.", false, "x."},
	{"r a{2} _", "xaaa", false, "x_a"},
	{"r a{,2}b _", "xaaab", false, "xa_"},
	{"r a{2}{2} _", "xaaaaaa", false, "x_aa"},
	{"r a**b _", "xaab", false, "x_"},
	{"r a**b _", "ab", false, "_"},
	{"r a**b _", "b", false, "_"},
	{`r (a|ab)(c|bcd)(d*) [\1][\2][\3]`, "abcd", false, "[a][bcd][]"},
	{`r (a*)(ab)* [\1][\2]`, "aab", false, "[a][ab]"},
	{`r (a*)(ab)* [\1][\2]`, "abab", false, "[][ab]"},
	{`r (a|b)*c [\1]`, "abc", false, "[b]"},
	{`r (a|b)*c [\1]`, "c", false, "[]"},
	{`r x*|y [\0]`, "y", false, "[y]"},
	{`r \w+ _`, "a_b.c", false, "_.c"},
	{`r \s _`, "a b", false, "a_b"},
	{`r \bb _`, "ab-b", false, "ab-_"},
	{"r a) _", "xa)y", false, "x_y"},
	{`r a\) _`, "xa)y", false, "x_y"},
	{"r a$b|c _", "xc", false, "x_"},
	{"r a$b|c _", "a", false, "a"},
	{"r (^a|b$) _", "ab", false, "_b"},
	{"r (^a|b$) _", "b", false, "_"},
	{"r a.c _", "a\nc", false, "_"},
	{"r ^b _", "a\nb", false, "a\nb"},
	{"r a$ _", "a\nb", false, "a\nb"},
	{"r [^x]c _", "\nc", false, "_"},
	{"r a|ab|abc _", "xabcd", false, "x_d"},
	{"r [[:upper:]]+ _", "aBCd", false, "a_d"},
	{"ri [[:upper:]]+ _", "aBCd", false, "_"},
	{"r [[:alpha:][:digit:]]+ _", "..a1..", false, ".._.."},
	{"r [[.-.]x] _", "a-", false, "a_"},
	{"r [[=a=]] _", "ba", false, "b_"},
	{`r (a)|b [\1][\2]`, "b", false, "[][]"},
	{`r a \q\\\z`, "a", false, `q\z`},
	{`r ^(x)y(z) \2\1\0`, "xyz", false, "zxxyz"},
	{"r q q\nrs ^a b\nr ^b c\n", "a", false, "c"},
	{"ra a msg", "b", false, "b"},
	{"res a b\nr b c\n", "a", false, "b"},
	{"gi A b\nr c d\n", "ac", false, "ad"},
	{"r a", "bab", false, "bb"},
	{"r\ta\tb extra words", "a", false, "b"},
	{"r a b\r\nr c d\r\n", "ac", false, "bd"},
	{`r a() [\1]`, "a", false, "[]"},
	{"r ()* x", "ab", false, "xab"},
	{"r a|| x", "ba", false, "xba"},
	{"r é x", "aé", false, "ax"},
	{"rg aa a", "aaaaa", false, "a"},
	{`rg (.*)a(.*)b \1\2`, "aabb", false, ""},
	{`r x\{ _`, "ax{", false, "a_"},
	{"r } _", "a}", false, "a_"},
	{"r a]b _", "a]b", false, "_"},
	{`r \/ _`, "a/b", false, "a_b"},
	{`r \- _`, "a-b", false, "a_b"},
	{"~a ^pub/ ", "pub/x", false, "pub/x"},
}

func TestAsTftpdHPA(t *testing.T) {
	for _, test := range asTftpdHPA {
		got, err := parse(t, test.file).Apply(remap.Query{Name: test.name, Write: test.write, Addr: "127.0.0.1", Hex: "7F000001"})
		if err != nil || got != test.want {
			t.Errorf("%q makes of %q: %q, %v; want %q", test.file, test.name, got, err, test.want)
		}
	}
}

// refusedByTftpdHPA lists rules with expressions that regcomp refused on that system. This package
// must refuse them too, rather than give them another meaning.
var refusedByTftpdHPA = []string{
	"r * x",
	"r a|*b x",
	"r ^* x",
	"r (* x",
	"r a{ x",
	"r a{x} x",
	"r a{2,1} x",
	"r [a x",
	"r (a x",
	`r a\1 x`,
	"r [z-a] x",
	"r [a-c-e] x",
	"r [[:foo:]] x",
	"q a b",
	"r",
	"r~ a b",
	`r a\`,
	"r {2} x",
	"r $* x",
	`r \b* x`,
	"r [[:alpha:]-z] x",
	"r [[.hyphen.]] x",
	"r [a--] x",
	"r [] x",
	"r [^] x",
	"r a{2 x",
}

func TestRefusedByTftpdHPA(t *testing.T) {
	for _, file := range refusedByTftpdHPA {
		if _, err := remap.Parse(file); err == nil {
			t.Errorf("%q is accepted", file)
		}
	}
}
