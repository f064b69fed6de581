package filter_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/haul-project/haul/store/filter"
)

// The verdicts on names, by sets of rules. Those on files are rclone's: package interop compares
// a list of such rules with it.
func TestMatch(t *testing.T) {
	tests := []struct{ rules, take, enter, skip string }{
		{"", "a d/", "", ""},
		{"- *.o", "a.c d/a.c o d.o/", "", "a.o d/b.o .o"},
		{"- a", "a/ a/x d/a/ b", "", "a d/a"},
		{"- a/", "a d/a b", "", "a/ a/x a/x/y d/a/ d/a/x"},
		{"- /a/", "a d/a d/a/ d/a/x", "", "a/ a/x a/x/"},
		{"- a/**", "a d/a", "", "a/ a/x d/a/x d/a/"},
		{"- /a", "a/ b/a a/a", "", "a"},
		{"- a/*", "a a/ a/b/c b", "", "a/b d/a/b"},
		{"- /a/**/b", "a/b b a/c a/ a/x/", "", "a/x/b a/x/y/b"},
		{"- **/b", "b", "", "a/b a/c/b"},
		{"- **", "", "", "a a/ a/b x\ny x\ny/a\nb"},
		{"- *", "", "", "a a/ a/b"},
		{"- /*", "a/ a/b a/b/", "", "a"},
		{"+ *.c\n- **", "a.c d/a.c", "d/ a.c/", "a.o d/a.o"},
		{"+ /p/**\n- **", "p/ p/x p/x/", "", "p m m/ m/p m/p/"},
		{"+ /a/b/*.c\n- **", "a/b/x.c", "a/ a/b/", "a/x.c x.c b/ a/c/ a/b/c/ a/b/x.o"},
		{"+ /a*/b/*.c\n- **", "ax/b/x.c", "ax/ a/b/", "b/ a/bx/"},
		{"+ /{a/b,c}/*.c\n- **", "a/b/x.c c/x.c", "a/ c/ d/", "x.c a/x.c"},
		{"+ d/\n- **", "d/ x/d/", "", "d x/ d/a"},
		{"+ d/keep\n- d/\n", "d/keep x x/d/keep", "d/ x/d/", "d/x"},
		{"- d/\n+ d/keep", "x", "", "d/keep d/ d/x"},
		{"- [a-c]x\n- [^x]y\n- {p,q{r,s}}\n- ?z", "dx xy qq z az/", "", "ax cx ay p qs az"},
		{`- a\*b` + "\n" + `- \[x` + "\n- [*]", "axb x", "", "a*b [x *"},
		{"# c\n; c\n\n  - a  \n!\n- b\r\n", "a", "", "b"},
		{"- a//b", "", "", "a/b"},
	}
	for _, test := range tests {
		r := new(filter.Rules)
		if err := r.AddText(test.rules); err != nil {
			t.Errorf("%q: %v", test.rules, err)
			continue
		}
		for want, names := range []string{filter.Take: test.take, filter.Enter: test.enter, filter.Skip: test.skip} {
			for name := range strings.SplitSeq(names, " ") {
				if name == "" {
					continue
				}
				name, dir := strings.CutSuffix(name, "/")
				if got := r.Match(name, dir); got != filter.Verdict(want) {
					t.Errorf("%q: %q, directory %v: verdict %v, want %v", test.rules, name, dir, got, filter.Verdict(want))
				}
			}
		}
	}
}

// With IncludeOnly, what no rule includes is excluded.
func TestIncludeOnly(t *testing.T) {
	var r filter.Rules
	if err := r.Add(true, "*.jpg"); err != nil || r.Empty() {
		t.Fatal(err)
	}
	r.IncludeOnly()
	got := []filter.Verdict{r.Match("a.jpg", false), r.Match("d", true), r.Match("a.txt", false), (*filter.Rules)(nil).Match("a", false)}
	for i, want := range []filter.Verdict{filter.Take, filter.Enter, filter.Skip, filter.Take} {
		if got[i] != want {
			t.Errorf("%d: verdict %v, want %v", i, got[i], want)
		}
	}
}

// A line that is no rule, or is beyond a bound, is an error that names it.
func TestRefused(t *testing.T) {
	for _, rules := range []string{
		"- ", "- /", "-a", "* x", "- [a", "- {a", "- a}", "- a]", `- a\`, "- a**b", "- ***", "- {a,**}", "- {{a.*}}",
		"- " + strings.Repeat("a", filter.MaxPattern+1), "- " + strings.Repeat("{a,b}", filter.MaxBraces+1),
		strings.Repeat("- a\n", filter.MaxRules+1),
	} {
		if err := new(filter.Rules).AddText(rules); err == nil || !strings.Contains(err.Error(), "line ") || len(err.Error()) > 400 {
			t.Errorf("%.20q: %v", rules, err)
		}
	}
}

// No rules crash or hang on any name, and what is in a directory that is skipped is skipped.
func FuzzMatch(f *testing.F) {
	f.Add("+ *.c\n- /a/**/b/", "a/x/b/y.c")
	f.Add("- {a,b*}/[^x]?\n+ d/\n- **", "b\n/\xff\xfe/d")
	f.Fuzz(func(t *testing.T, rules, name string) {
		r := new(filter.Rules)
		if r.AddText(rules) != nil {
			return
		}
		name = strings.Trim(name, "/")
		if strings.Contains(name, "//") || name == "" {
			return
		}
		verdict := r.Match(name, false)
		for i, c := range name {
			if c == '/' && r.Match(name[:i], true) == filter.Skip && verdict != filter.Skip {
				t.Fatal(errors.New("a file is taken in a directory that is skipped"))
			}
		}
	})
}
