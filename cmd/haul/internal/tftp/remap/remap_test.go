package remap_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/tftp/remap"
)

func parse(t testing.TB, text string) *remap.Rules {
	t.Helper()
	r, err := remap.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Map files that are typical of real installations.
const (
	pxelinux = `# Windows loaders send backslashes, some a leading slash, some the server's own path
rg  \\              /
r   ^/?tftpboot/
r   ^/*
`
	windows = `rg \\ /			# separators
ri ^/?boot/(.*)$	boot/\L\1
re ^boot/bcd$		boot/BCD
`
	perClient = `rG4 ^config$	hosts/\i/config
rG6 ^config$	hosts/\x/config
rP  ^		incoming/\x/
`
	guarded = `a  (^|/)\.\.(/|$)	no\ climbing,\ please
aG \.key$
aP ^(boot|images)/	\0\ is\ read-only
~a ^[-A-Za-z0-9_./]+$	strange\ characters\ from\ \i
`
	fallback = `# The client's own file, then its subnet's, then the default.
rE  ^pxelinux\.cfg/.*$		pxelinux.cfg/\x
rE  ^pxelinux\.cfg/(.*)$	site/\1
r   ^pxelinux\.cfg/.*$		pxelinux.cfg/default
`
	jumps = `j  ^grub/	grub
j  \.efi$	efi
a  ^		unknown\ loader
:grub
re ^grub/	boot/grub2/
:efi
re (.*)		efi/\L\1
`
	upper = `r ^.*$ \U\0
rg _ -
`
)

func TestApply(t *testing.T) {
	have := func(names ...string) func(string) bool {
		return func(name string) bool { return slices.Contains(names, name) }
	}
	v4 := remap.Query{Addr: "192.0.2.169", Hex: "C00002A9"}
	v6 := remap.Query{Addr: "2001:db8::1", Hex: "20010DB8000000000000000000000001", IPv6: true}
	put := remap.Query{Addr: "192.0.2.169", Hex: "C00002A9", Write: true}
	tests := []struct {
		file, name string
		q          remap.Query
		exists     func(string) bool
		want       string // a name, or "!" and the message of an abort
	}{
		{pxelinux, `\tftpboot\pxelinux.cfg\default`, v4, nil, "pxelinux.cfg/default"},
		{pxelinux, "/tftpboot/pxelinux.0", v4, nil, "pxelinux.0"},
		{pxelinux, "///vmlinuz", v4, nil, "vmlinuz"},
		{pxelinux, "vmlinuz", v4, nil, "vmlinuz"},
		{windows, `\Boot\x64\WDSNBP.COM`, v4, nil, "boot/x64/wdsnbp.com"},
		{windows, `\boot\Bcd`, v4, nil, "boot/BCD"},
		{perClient, "config", v4, nil, "hosts/192.0.2.169/config"},
		{perClient, "config", v6, nil, "hosts/20010DB8000000000000000000000001/config"},
		{perClient, "config", put, nil, "incoming/C00002A9/config"},
		{perClient, "kernel", v4, nil, "kernel"},
		{guarded, "a/../b", v4, nil, "!no climbing, please"},
		{guarded, "host.key", v4, nil, "!"},
		{guarded, "host.key", put, nil, "host.key"},
		{guarded, "boot/kernel", put, nil, "!boot/ is read-only"},
		{guarded, "boot/kernel", v4, nil, "boot/kernel"},
		{guarded, "boot kernel", v6, nil, "!strange characters from 2001:db8::1"},
		{fallback, "pxelinux.cfg/C0A80001", v4, have("pxelinux.cfg/C00002A9"), "pxelinux.cfg/C00002A9"},
		{fallback, "pxelinux.cfg/C0A80001", v4, have("site/C0A80001"), "site/C0A80001"},
		{fallback, "pxelinux.cfg/C0A80001", v4, have(), "pxelinux.cfg/default"},
		{fallback, "pxelinux.cfg/C0A80001", v4, nil, "pxelinux.cfg/default"},
		{jumps, "grub/grub.cfg", v4, nil, "boot/grub2/grub.cfg"},
		{jumps, "BOOTX64.efi", v4, nil, "efi/bootx64.efi"},
		{jumps, "menu", v4, nil, "!unknown loader"},
		{upper, "readme_first.txt", v4, nil, "README-FIRST.TXT"},
		{"", "any", v4, nil, "any"},
	}
	for _, test := range tests {
		q := test.q
		q.Name, q.Exists = test.name, test.exists
		got, err := parse(t, test.file).Apply(q)
		if abort, ok := errors.AsType[*remap.Abort](err); ok {
			got, err = "!"+abort.Message, nil
		}
		if err != nil || got != test.want {
			t.Errorf("%.20q… makes of %q: %q, %v; want %q", test.file, test.name, got, err, test.want)
		}
	}
}

// TestAgainstTheManual tests the cases in which tftp-hpa 5.2 and 6.0 differ, or in which their code
// differs from the manual.
func TestAgainstTheManual(t *testing.T) {
	tests := []struct{ why, file, name, want string }{
		{"s starts at the first rule; 5.2 at the second", "r ^b d\nrs ^a b", "a", "d"},
		{"a message has nothing of the name; in 5.2 what is around the match", "a ^secret Go_away", "secret/x", "!Go_away"},
		{"gg continues behind the replacement", `rgg a aa`, "aba", "aabaa"},
		{"gg passes an empty match by, as sed does", `rgg x* -`, "abxc", "-a-b-c-"},
		{"gg knows where the name begins", `rgg ^a b`, "aaa", "baa"},
		{"gg and groups", `rgg (.)/ \1\1_`, "a/b/c", "aa_bb_c"},
		{"gg at the end", `rgg $ !`, "ab", "ab!"},
		{". is a character; to 5.2 a byte, unless its locale says so", "r . x", "é", "x"},
		{". is a byte where there is no character", "rgg . x", "\xff\xfe", "xx"},
		{"a group keeps its backslashes; in 6.0 it ends there", `r ^(.*)$ x\1`, `a\b`, `xa\b`},
		{"E undoes the replacement", "rE a b\nr a c", "a", "c"},
		{"E without r asks for the name as it is", "E ^there$\nr ^ x", "there", "there"},
		{"E with ~", "~E ^x\nr ^ y", "there", "there"},
		{"a label's name may come from the match", "j ^(.) \\1\nr ^ no\n:a\nr ^ yes", "a", "yesa"},
		{"of two labels the first counts", "j ^ l\n:l\nr ^ 1\n:l\nr ^ 2", "", "21"},
		{"a label may stand apart from its colon", "j ^ l\nr ^ no\n: l\nr ^ yes", "", "yes"},
		{"jump backwards", ":top\nr ^(x*)y \\1x\nj y top", "yyy", "xxx"},
		{"jump to the end", "j ^ end\nr ^ no\n:end", "", ""},
		{"a backslash at the end of a replacement stands for itself", `r / \`, "a/b", `a\b`},
		{"a # in the middle of a word begins a comment", "r a b#c", "a", "b"},
		{"after ~ there are no groups", `~a x got\ \0\1`, "abc", "!got "},
		{"no rewriting where the rule is for uploads", "rP ^ x", "a", "a"},
	}
	for _, test := range tests {
		exists := func(name string) bool { return name == "there" }
		got, err := parse(t, test.file).Apply(remap.Query{Name: test.name, Exists: exists})
		if abort, ok := errors.AsType[*remap.Abort](err); ok {
			got, err = "!"+abort.Message, nil
		}
		if err != nil || got != test.want {
			t.Errorf("%s: %q makes of %q: %q, %v; want %q", test.why, test.file, test.name, got, err, test.want)
		}
	}
}

func TestTrace(t *testing.T) {
	rules := parse(t, "# comment\nrg \\\\ /\nr x y\nrE ^ lost/\nj ^a out\nr ^ no\n:out\ns ^A\nre (.*) \\U\\1 # rest\n")
	var got []string
	name, err := rules.Trace(remap.Query{Name: `a\b`}, func(s remap.Step) {
		got = append(got, fmt.Sprintf("%d|%s|%s|%s", s.Line, s.Rule, s.Name, s.Then))
	})
	want := []string{
		`2|rg \\ /|a/b|`,
		"4|rE ^ lost/|a/b|undone: no such file",
		"5|j ^a out|a/b|jump to out",
		`9|re (.*) \U\1 # rest|A/B|end`,
	}
	if err != nil || name != "A/B" || !slices.Equal(got, want) {
		t.Errorf("%q, %v\n%s\nwant\n%s", name, err, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if rules.Len() != 7 {
		t.Errorf("%d rules", rules.Len())
	}
}

// For any map file and any name, applying the rules takes only a short time.
func TestBounds(t *testing.T) {
	long := strings.Repeat("a", remap.MaxName)
	many := strings.Repeat("r q q\n", remap.MaxRules)
	tests := []struct {
		why, file, name string
		want            error
		text            string
	}{
		{"a replacement that matches again", "rg x x", "x", remap.ErrLimit, "line 1: the regex still matches what it has replaced"},
		{"growing slowly", "r b b\nrg ^ x", "", remap.ErrLimit, "line 2"},
		{"growing fast", "rg .* \\0\\0", "ab", remap.ErrLimit, "the name grows beyond 4096 bytes"},
		{"growing in one step", "rgg . " + strings.Repeat("x", 5000), "abc", remap.ErrLimit, "grows beyond"},
		{"growing around a match", "r b xx", long[:remap.MaxName-1] + "b", remap.ErrLimit, "grows beyond"},
		{"starting over for ever", "s ^", "", remap.ErrLimit, "not done after 4096 steps"},
		{"jumping for ever", ":l\nj ^ l", "", remap.ErrLimit, "not done after 4096 steps"},
		{"as many rules as steps", many, "a", nil, ""},
		{"one more step", many[6:] + "rg b c\n", "b", remap.ErrLimit, "not done after 4096 steps"},
		{"too long a name", "r q q", long + "a", remap.ErrLimit, "a name of 4097 bytes"},
		{"the longest name", "r q q", long, nil, ""},
		{"too much work", "r (a|b|c){0,200}x{2} y\ns ^", long, remap.ErrLimit, "takes too long"},
		{"too much work in gg", "rgg a|a.*(b|c|d){50} y", long, remap.ErrLimit, "takes too long"},
		{"too many matches", "r q q\nrgg a b", long, remap.ErrLimit, "not done after 4096 steps"},
		{"as many matches as steps", "rgg a b", long, nil, ""},
		{"a label that is not there", `j ^(.*)$ \1`, "nowhere", remap.ErrLabel, `jump to "nowhere"`},
		{"a long message", "a ^ " + strings.Repeat("x", 5000), "", remap.ErrLimit, "grows beyond"},
	}
	for _, test := range tests {
		name, err := parse(t, test.file).Apply(remap.Query{Name: test.name})
		switch {
		case test.want == nil && err != nil:
			t.Errorf("%s: %v", test.why, err)
		case test.want != nil && (!errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) || name != ""):
			t.Errorf("%s: %q, %v; want %v with %q", test.why, name, err, test.want, test.text)
		}
	}
}

func TestAbortError(t *testing.T) {
	_, err := parse(t, "r x y\na ^ Go\\ away").Apply(remap.Query{})
	if err == nil || err.Error() != `refused by the map file, line 2: "Go away"` {
		t.Error(err)
	}
	_, err = parse(t, "a ^").Apply(remap.Query{})
	if err == nil || err.Error() != "refused by the map file, line 1" {
		t.Error(err)
	}
}
